"""The headers of rejections by Envoy's filter of admission: the time to retry, and the status of gRPC."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import grpc
import httpx
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status
from sluice.v1 import chat_pb2_grpc

from tests.e2e.answers.test_chat import grpc_request
from tests.e2e.envoy.limited_upstream import calls
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S


@pytest.mark.parametrize(
    ("intervals", "held", "seconds"),
    [("", 4, 1), (";200", 4, 1), (";1500", 4, 5), (";1500", 2, 2), (";4000", 4, 12), (";4000000", 4, 30)],
)
def test_retry_after_follows_from_the_rate_of_answers(stack: Stack, intervals: str, held: int, seconds: int) -> None:
    """It is the time until fewer requests than the sustained number are in flight, one ending in each interval."""
    with calls(stack) as made:
        made.post(limit=f"7;2;4;{held == 2:d}{intervals}")
        made.hold(held)
        answers = [made.post(path=path) for path in ("/v1/chat/completions", "/v1/messages", "/api/chat")]
        assert [each.headers.get_list("retry-after") for each in answers] == [[f"{seconds}"]] * 3
        with grpc.insecure_channel(made.envoy.target) as channel, pytest.raises(grpc.RpcError) as caught:
            next(chat_pb2_grpc.ChatServiceStub(channel).StreamChat(grpc_request(), timeout=GUARD_S))
        failed: Any = caught.value  # also a grpc.Call
        status, retry = rpc_status.from_call(failed), error_details_pb2.RetryInfo()
        assert status is not None
        assert status.details[1].Unpack(retry)
        assert retry.retry_delay.ToTimedelta().total_seconds() == seconds
        assert ("grpc-retry-pushback-ms", f"{seconds}000") in [tuple(each) for each in failed.trailing_metadata()]


def test_the_rates_of_replicas_and_models_add_up(stack: Stack) -> None:
    """Two of them whose answers end every 12 s together end one every 6 s."""
    with calls(stack) as made:
        for source in (7, 8):
            made.post(limit=f"{source};1;1;0;12000")
        made.hold(2)
        assert made.post().headers["retry-after"] == "6"


@pytest.mark.parametrize(
    "content_type", ["application/grpc", "application/grpc-web+proto", "application/grpc-web-text"]
)
def test_rejections_of_grpc_web_have_the_status_of_their_details(stack: Stack, content_type: str) -> None:
    """The status is RESOURCE_EXHAUSTED, in the headers as in the details, for gRPC and gRPC-Web."""
    with calls(stack) as made:
        made.post(limit="7;2;4")
        made.hold(4)
        url, headers = f"{made.envoy.url}/sluice.v1.ChatService/StreamChat", {"content-type": content_type}
        answer = httpx.post(url, content=bytes(5), headers=headers, timeout=GUARD_S)
    assert answer.headers.get_list("grpc-status") == [f"{grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]}"]
    details = answer.headers["grpc-status-details-bin"]
    status = status_pb2.Status.FromString(b64decode(details + "=" * (-len(details) % 4)))
    assert status.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]

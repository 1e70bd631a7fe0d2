"""Every limit of the contract holds over gRPC and over the OpenAI-style dialect of the running product."""

from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import text_format
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from sluice.v1 import chat_pb2, chat_pb2_grpc

from tests.contract.cases import CASES, GRPC_USER, USER, Case
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S


def grpc_request(case: Case) -> chat_pb2.ChatRequest:
    """Return the case's request: a valid request with the case's fields."""
    request = chat_pb2.ChatRequest(model="sluice-demo")
    if case.grpc != "messages_none":
        text_format.Parse(case.grpc, request)
        if not request.messages:
            text_format.Parse(GRPC_USER, request)
    return request


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_grpc_names_field_and_limit(stack: Stack, case: Case) -> None:
    """The error is INVALID_ARGUMENT with a BadRequest that names the field, and an ErrorInfo of our domain."""
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['service']}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            chat_pb2_grpc.ChatServiceStub(channel).Chat(grpc_request(case), timeout=GUARD_S)
        error: Any = caught.value
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        status = rpc_status.from_call(error)
        assert status is not None
        bad, info = error_details_pb2.BadRequest(), error_details_pb2.ErrorInfo()
        assert any(detail.Unpack(bad) for detail in status.details)
        assert any(detail.Unpack(info) for detail in status.details)
        assert info.domain == "sluice"
        assert info.reason
        assert case.field in [violation.field for violation in bad.field_violations]
        assert case.in_message in " ".join(violation.description for violation in bad.field_violations)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_rest_names_field_and_limit(stack: Stack, case: Case) -> None:
    """The error is a 400 in OpenAI's form, with the REST name of the field and the limit."""
    body = {"model": "sluice-demo", "messages": [USER], **case.rest}
    answer = httpx.post(f"{stack.gateway}/v1/chat/completions", json=body, timeout=GUARD_S)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] == case.param
    assert case.in_message in error["message"]


def test_engine_is_idle_after_all_cases(stack: Stack) -> None:
    """After all cases the engine is idle and answers."""
    stack.until_idle()
    body = {"model": "sluice-demo", "messages": [USER], "max_tokens": 2}
    assert httpx.post(f"{stack.gateway}/v1/chat/completions", json=body, timeout=GUARD_S).status_code == 200

"""Envoy's filter of admission: it enforces the limit of requests in flight that the service sends with its answers."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
import httpx
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from sluice.v1 import chat_pb2_grpc

from gateway.dialects.seam.failure import Failure, Reason
from tests.e2e.answers.test_chat import grpc_request
from tests.e2e.connections import connections
from tests.e2e.envoy.http2 import CHAT, NO_WINDOW, begun_calls, requests_with_trailers, wait_for_headers
from tests.e2e.envoy.limited_upstream import FOREVER, Calls, calls
from tests.e2e.envoy.test_envoy_errors import gateway_response, with_id
from tests.e2e.stack import GENERATOR, HOLDABLE, Stack, started
from tests.waiting import GUARD_S

PATHS = [
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
    "/openai/deployments/sluice-demo/chat/completions?api-version=2024-10-21",
    "/chat/completions?api-version=2024-05-01-preview",
    "/serving-endpoints/sluice-demo/invocations",
    "/v2/models/sluice-demo/generate",
    "/v2/chat",
    "/v1/chat%2Fcompletions/",
    "/v1/chat/complet%69ons",
    "/api/chat",
    "/api/generate",
    "/",
]
SPELLINGS = (
    {"authorization": "bEARER  a"},
    {"authorization": "Basic", "x-api-key": "a"},
    {"authorization": "", "api-key": "a"},
)
LIMIT = "7;2;4"  # of source 7: two requests in flight during an overload, else four
REQUEST_OF_B = (
    b"POST / HTTP/1.1\r\nhost: a\r\nauthorization: Bearer b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)


@pytest.fixture(scope="module")
def overloaded(stack: Stack) -> Iterator[Calls]:
    """Requests through an Envoy with as many in flight as are allowed."""
    with calls(stack) as made:
        made.post(limit=LIMIT)
        made.hold(4)
        yield made


def test_all_requests_are_forwarded_before_a_limit_is_known(stack: Stack) -> None:
    """As long as the service has sent no limit, no request is rejected."""
    with calls(stack) as made:
        assert made.post().status_code == 200
        made.hold(8)


def test_burst_then_sustained_number_of_requests_is_forwarded(stack: Stack) -> None:
    """Up to four requests are in flight; after the first rejection two. Clients don't see the limit."""
    with calls(stack) as made:
        assert "x-sluice-limit" not in made.post(limit=LIMIT).headers
        made.hold(4)
        assert made.post().status_code == 429
        made.release()
        made.hold(2)
        assert made.post().status_code == 429
        assert made.envoy.stat("wasmcustom.sluice.admission.rejected") == 2


def test_incomplete_uploads_are_not_in_flight(stack: Stack) -> None:
    """Uploads that are paused, small or large, leave the places of others free; complete ones take them."""
    head = b"POST / HTTP/1.1\r\nhost: a\r\nauthorization: Bearer b\r\ncontent-length: %d\r\n\r\n"
    with calls(stack) as made:
        made.post(limit=LIMIT)
        with connections(made.envoy, 8, head % (1 << 20)) as opened, connections(made.envoy, 8, head % 10):
            made.envoy.until(lambda: made.num_in_flight() == 8)  # Envoy itself buffers the small ones
            assert {made.post().status_code for _ in range(8)} == {200}
            for each in opened[:4]:
                each.sendall(b'{"held": 1}' + b" " * ((1 << 20) - 11))
                assert each.recv(12) == b"HTTP/1.1 200"
            assert made.post("b").status_code == 429


def test_uploads_that_end_at_once_are_limited(stack: Stack) -> None:
    """Requests that were begun while there was room are decided upon again when their bodies are complete."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer b\r\ncontent-length: %d\r\n\r\n"
    with calls(stack) as made:
        made.post(limit=LIMIT)
        for size, num_passed in ((100_000, 4), (20, 2)):  # forwarded as they arrive, and buffered by Envoy
            with connections(made.envoy, 12, head % size) as opened:
                made.envoy.until(lambda: made.envoy.stat("http.front_door.downstream_rq_active") == 12)
                for each in opened:
                    each.sendall(b'{"held": 1}' + b" " * (size - 11))
                statuses = Counter(each.recv(12)[9:] for each in opened)
            assert statuses == {b"200": num_passed, b"429": 12 - num_passed}
            made.envoy.until(lambda: made.num_in_flight() == 0)


def test_complete_answers_that_are_not_read_are_not_in_flight(stack: Stack) -> None:
    """Answers for which an HTTP/2 client opens no window take no places of others."""
    with calls(stack) as made:
        made.post(limit=LIMIT)
        with connections(made.envoy, 1, requests_with_trailers(4, "/", b"{}", NO_WINDOW)) as (connection,):
            wait_for_headers(connection, 4)
            made.envoy.until(lambda: made.num_in_flight() == 0)
            assert made.envoy.stat("http.front_door.downstream_rq_active") == 4
            assert made.post("b").status_code == 200


def test_requests_that_end_with_trailers_are_in_flight(stack: Stack) -> None:
    """A request over HTTP/2 is complete with its trailers, too."""
    with calls(stack) as made:
        made.post(limit=LIMIT)
        with connections(made.envoy, 1, requests_with_trailers(8, "/", b'{"held": 1}')):
            num_rejected = "wasmcustom.sluice.admission.rejected"
            made.envoy.until(lambda: made.num_held() + made.envoy.stat(num_rejected) == 8)
            assert made.num_held() == 4


def test_burst_is_forwarded_again_after_an_overload(stack: Stack) -> None:
    """When an overload has ended, a burst is forwarded again."""
    with calls(stack, overload_ms=0) as made:
        made.post(limit=LIMIT)
        made.hold(4)
        assert made.post().status_code == 429
        made.release()
        made.hold(4)


def test_overload_reported_by_the_service_limits_to_the_sustained_number(stack: Stack) -> None:
    """If the service says that it is overloaded, only the sustained number is forwarded."""
    with calls(stack) as made:
        made.post(limit=f"{LIMIT};1")
        made.hold(2)
        assert made.post().status_code == 429


def test_limits_of_replicas_and_models_add_up(stack: Stack) -> None:
    """The limits of replicas and models add up, and the newest of each counts."""
    with calls(stack) as made:
        for limit in ("7;1;9", "8;1;2", "7;1;1"):
            made.post(limit=limit)
        made.hold(3)
        assert made.post().status_code == 429


def test_a_caller_below_its_share_is_forwarded(stack: Stack) -> None:
    """During another key's flood a known key that uses little is served; a key never seen before is not."""
    with calls(stack) as made:
        made.post("polite", limit=LIMIT)
        for _ in range(20):
            assert made.post("flood").status_code == 200
        made.hold(4, "flood")
        assert made.post("flood").status_code == 429
        assert made.post("polite").status_code == 200
        assert made.post("stranger").status_code == 429


@pytest.mark.parametrize("headers", SPELLINGS)
def test_a_key_is_one_caller_in_every_header(stack: Stack, headers: dict[str, str]) -> None:
    """A caller can't multiply itself by the spellings that the service accepts."""
    with calls(stack) as made:
        assert [made.post(headers=each, limit=LIMIT).status_code for each in (headers, None)] == [200, 200]
        made.hold(4)
        assert made.post(headers=headers).status_code == 429


def test_a_caller_with_one_request_at_a_time_is_forwarded(stack: Stack) -> None:
    """It may make any number of them during a few answers that take long, even if those exceed the limit of a burst."""
    with calls(stack) as made:
        made.post("polite")
        made.hold(8, "flood")
        made.post("polite", limit=LIMIT)
        assert made.post("flood").status_code == 429
        assert [made.post("polite").status_code for _ in range(30)] == [200] * 30


def test_other_requests_are_not_limited(overloaded: Calls) -> None:
    """Health, lists and requests that generate nothing are forwarded during an overload."""
    assert overloaded.post().status_code == 429
    for path in ("/v1/models", "/healthz", "/livez"):
        assert httpx.get(overloaded.envoy.url + path, timeout=GUARD_S).status_code == 200
    for path in ("/tokenize", "/v1/embeddings", "/v1/messages/count_tokens"):
        assert overloaded.post(path=path).status_code == 200


def test_caller_that_ignores_rejections_gets_delayed_ones(stack: Stack) -> None:
    """Of a caller's 25 rejections within a period the last five are delayed; another caller's isn't."""
    with calls(stack, delay_ms=FOREVER) as made:
        made.post(limit=LIMIT)
        made.hold(4)
        with connections(made.envoy, 25, REQUEST_OF_B):
            made.envoy.until(partial(has_rejected, made, 20))
            made.envoy.until(lambda: made.envoy.stat("http.front_door.downstream_rq_active") == 4 + 5)
            assert made.post("c").status_code == 429


def test_caller_that_ignores_rejections_gets_the_first_of_a_later_period_delayed(stack: Stack) -> None:
    """The caller's delayed rejection ends a period; another one is delayed, though it is the first of the next."""
    delay_s = 2
    with calls(stack, delay_ms=1000 * delay_s) as made:
        made.post(limit=LIMIT)
        made.hold(4)
        # Envoy reads all calls of one connection at once, so they belong to one period.
        for num_calls, num_rejected in ((21, 21), (1, 22)):
            began = time.monotonic()
            with connections(made.envoy, 1, begun_calls(num_calls, CHAT, b"")):
                made.envoy.until(partial(has_rejected, made, num_rejected))
            assert time.monotonic() - began >= delay_s


def has_rejected(made: Calls, count: int) -> bool:
    """Return True if Envoy has rejected that many requests."""
    return made.envoy.stat("wasmcustom.sluice.admission.rejected") == count


@pytest.mark.parametrize("path", PATHS)
def test_rejections_have_the_format_of_the_dialect(overloaded: Calls, path: str) -> None:
    """A rejection has the body, headers and status of the gateway's, and `retry-after`."""
    answer = overloaded.post(path=path)
    expected = gateway_response(path, answer, Failure(Reason.QUEUE_FULL, "the server is overloaded"))
    assert answer.status_code == expected.status
    assert (answer.headers["retry-after"], answer.headers["x-sluice-reason"]) == ("1", "QUEUE_FULL")
    assert with_id(expected.body, answer).items() <= answer.json().items()  # Azure's has more fields of its errors


def test_rejections_of_grpc_have_details(overloaded: Calls) -> None:
    """A call is rejected with RESOURCE_EXHAUSTED, the reason, and the delay after which to retry."""
    with grpc.insecure_channel(overloaded.envoy.target) as channel, pytest.raises(grpc.RpcError) as caught:
        next(chat_pb2_grpc.ChatServiceStub(channel).StreamChat(grpc_request(), timeout=GUARD_S))
    failed: Any = caught.value  # also a grpc.Call
    status = rpc_status.from_call(failed)
    assert status is not None
    assert (failed.code(), status.message) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "the server is overloaded")
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    assert [each.Unpack(to) for each, to in zip(status.details, (info, retry), strict=True)] == [True, True]
    assert (info.reason, info.domain, dict(info.metadata)) == ("QUEUE_FULL", "sluice", {"for_all": "true"})
    assert retry.retry_delay.ToTimedelta().total_seconds() == 1
    assert ("grpc-retry-pushback-ms", "1000") in [tuple(each) for each in failed.trailing_metadata()]


@pytest.mark.parametrize("method", ["sluice.v1.ChatService/StreamChat", "inference.GRPCInferenceService/ModelInfer"])
def test_large_calls_are_limited(overloaded: Calls, method: str) -> None:
    """A call with a body that Envoy doesn't buffer is rejected like any other; one of another method isn't."""

    def headers_of(path: str) -> httpx.Headers:
        content, headers = bytes(70_000), {"content-type": "application/grpc"}
        return httpx.post(f"{overloaded.envoy.url}/{path}", content=content, headers=headers, timeout=GUARD_S).headers

    assert headers_of(method)["x-sluice-reason"] == "QUEUE_FULL"
    assert "x-sluice-reason" not in headers_of("sluice.v1.ModelService/GetModel")


def test_the_product_limits_requests_in_flight() -> None:
    """Envoy rejects what exceeds the limit that the service has measured, and the service doesn't get it."""
    settings = HOLDABLE | {
        "SLUICE_SERVICE_ENGINE__MAX_BATCH_SEQUENCES": "2",
        "SLUICE_SERVICE_ENGINE__MAX_QUEUE_WAIT_S": "0.05",  # so short that no burst is longer than the slots
        # The service can't see how late a call arrives, which on a busy machine would exceed that wait.
        "SLUICE_GATEWAY_REQUEST_DEADLINE_S": f"{2 * GUARD_S + 0.5}",
    }
    body = {"model": "sluice-demo", "messages": [{"role": "user", "content": "Hello!"}], "ignore_eos": True}
    with started(GENERATOR, environment=settings) as stack, ThreadPoolExecutor(2) as pool:

        def post(url: str, max_tokens: int = 1500) -> httpx.Response:
            sent = body | {"max_tokens": max_tokens}
            return httpx.post(f"{url}/v1/chat/completions", json=sent, timeout=GUARD_S)

        def metrics() -> str:
            return httpx.get(f"{stack.gateway}/metrics", timeout=GUARD_S).text

        def measure(max_tokens: int) -> None:
            while "x-sluice-limit" not in post(stack.gateway, max_tokens).headers:
                pass

        # The rate is known after half a second in which the engine is never idle: the two do not end together.
        for measuring in [pool.submit(measure, max_tokens) for max_tokens in (1500, 1000)]:
            measuring.result()
        assert "x-sluice-limit" not in post(stack.url).headers
        with stack.engine_held():
            held = [pool.submit(post, stack.url) for _ in range(2)]
            while not re.search(r'http_server_active_requests\{.*"POST".*\} 2\.0', metrics()):
                pass
            rejected = post(stack.url)
        assert rejected.status_code == 429
        assert rejected.json()["error"]["message"] == "the server is overloaded"
        assert [each.result().status_code for each in held] == [200, 200]

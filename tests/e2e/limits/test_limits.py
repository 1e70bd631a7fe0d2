"""Per-key limits in the whole product: the errors in each dialect, and a Redis that fails and returns."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import openai
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2
from typer.testing import CliRunner

from cli.app import APP
from tests.e2e.limits.dialect_apis import DIALECT_APIS, HELLO, MODEL, SCOPES, DialectApi, Guarded
from tests.e2e.stack import HOLDABLE, Stack
from tests.redis_server import RedisServer
from tests.service.auth.key_files import write
from tests.waiting import GUARD_S, wait_until

ENCODER = "all-minilm-l6-v2"
CHAT = {"model": MODEL, "messages": HELLO, "max_tokens": 4}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Service, gateway, Envoy and Redis; keys by the names that the tests use."""
    path: Path = tmp_path_factory.mktemp("keys") / "keys.yaml"
    limits: dict[str, dict[str, int]] = {
        **{api.key_id: {"requests_per_minute": 1} for api in DIALECT_APIS},
        "sizes": {"max_tokens": 8, "max_n": 2},
        "patient": {"input_tokens_per_minute": 3000},
        "lost": {"requests_per_minute": 2},
        "one": {"concurrent_requests": 1},
        "small": {"input_tokens_per_minute": 5},
    }
    keys = write(path, **{key_id: {"scopes": SCOPES, "limits": values} for key_id, values in limits.items()})
    redis = RedisServer()
    environment = HOLDABLE | {
        "SLUICE_SERVICE_AUTH__KEYS_FILE": str(path),
        "SLUICE_SERVICE_QUOTA__REDIS_URL": redis.url,
        "SLUICE_SERVICE_QUOTA__REDIS_TIMEOUT_S": str(GUARD_S),  # a late answer is no loss; a closed connection is one
        "SLUICE_GATEWAY_RESUME_TIMEOUT_S": str(GUARD_S),  # a service starts slowly on a busy machine
    }
    stack = Stack(environment=environment)
    try:
        stack.wait_for("sluice is ready.")
        yield Guarded(stack, redis, keys)
    finally:
        redis.close()
        assert stack.stop() == 0, stack.output


@pytest.mark.parametrize("api", DIALECT_APIS, ids=[api.path for api in DIALECT_APIS])
def test_rate_limit_error_has_the_format_of_each_dialect(guarded: Guarded, api: DialectApi) -> None:
    """The first answer reports that no requests remain; the second is the dialect's 429 with Retry-After."""
    content_type = "text/event-stream" if api.is_streamed else "application/json"
    num_accepted, began = 0, time.monotonic()
    while (answer := guarded.post(api.key_id, api.path, api.body)).status_code == 200:
        num_accepted += 1  # more than once only if a minute has passed
        assert answer.headers["content-type"].startswith(content_type)
        assert answer.headers["x-ratelimit-limit-requests"] == "1"
        assert answer.headers["x-ratelimit-remaining-requests"] == answer.headers[api.left] == "0"
    assert 1 <= num_accepted <= 1 + (time.monotonic() - began) / 60
    second = answer
    assert second.status_code == 429, second.text
    body = second.json()
    for name, value in api.error_body.items():
        assert (body[name] if not isinstance(value, dict) else {each: body[name][each] for each in value}) == value
    assert "the limit of this key is 1 requests a minute; try again in" in second.text
    assert 1 <= int(second.headers["retry-after"]) <= 60
    assert second.headers["x-ratelimit-remaining-requests"] == second.headers[api.left] == "0"


@pytest.mark.parametrize("api", DIALECT_APIS, ids=[api.path for api in DIALECT_APIS])
def test_token_limit_above_the_keys_is_rejected_by_field(guarded: Guarded, api: DialectApi) -> None:
    """A token limit above the key's is invalid: the error names the field and has no Retry-After."""
    answer = guarded.post("sizes", api.path, api.with_max_tokens(9))
    assert answer.status_code == api.too_large, answer.text
    assert f"{api.max_tokens[-1]}: must be at most 8, the limit of this key, not 9" in answer.text
    assert "retry-after" not in answer.headers
    assert guarded.post("sizes", api.path, api.with_max_tokens(8)).status_code == 200


def test_prompt_above_the_tokens_per_minute_is_invalid(guarded: Guarded) -> None:
    """A prompt with more tokens than the limit per minute is rejected as never servable."""
    answer = guarded.post("small", "/v1/embeddings", {"model": ENCODER, "input": "one two three four five six seven"})
    assert answer.status_code == 400
    assert "it can't be served at any time" in answer.text
    assert answer.json()["error"]["param"] == "input"
    documents = ["one two three", "four five six"]
    answer = guarded.post("small", "/v1/rerank", {"model": ENCODER, "query": "seven", "documents": documents})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "documents")
    assert "it can't be served at any time" in answer.json()["message"]


def test_openai_client_waits_for_the_retry_delay(guarded: Guarded) -> None:
    """The client's own retry, by `retry-after-ms`, succeeds after one rejection."""
    seen: list[tuple[int, str | None]] = []

    def note(response: httpx.Response) -> None:
        seen.append((response.status_code, response.headers.get("retry-after-ms")))

    with httpx.Client(event_hooks={"response": [note]}, timeout=GUARD_S) as http:
        client = openai.OpenAI(
            base_url=f"{guarded.stack.url}/v1", api_key=guarded.keys["patient"], http_client=http, max_retries=2
        )
        texts = ["word " * 58] * 48  # 60 tokens each
        used = client.embeddings.create(model=ENCODER, input=texts).usage.prompt_tokens
        assert 2700 <= used <= 3000
        num_texts = 6
        answer = client.embeddings.with_raw_response.create(model=ENCODER, input=texts[:num_texts])
        while 429 not in dict(seen):  # on a slow machine the bucket has refilled in the meantime: take more of it
            num_texts = min(2 * num_texts, len(texts))
            answer = client.embeddings.with_raw_response.create(model=ENCODER, input=texts[:num_texts])
    assert [status for status, _ in seen[-2:]] == [429, 200]
    assert [status for status, _ in seen].count(429) == 1
    assert int(seen[-2][1] or 0) > 0
    assert answer.headers["x-ratelimit-limit-tokens"] == "3000"
    assert answer.headers["x-ratelimit-remaining-tokens"] == answer.headers["x-ratelimit-remaining-input-tokens"]


@pytest.mark.parametrize("after_first_token", [False, True])
def test_disconnect_frees_the_slot(guarded: Guarded, *, after_first_token: bool) -> None:
    """After a client has left a stream, before or after its first token, its key may send the next request."""
    drawn = {"temperature": 1, "top_p": 1}  # speculation would generate a repetitive text at once
    endless = {**CHAT, "max_tokens": 1500, "ignore_eos": True, "n": 4, "stream": True, **drawn}
    url, headers = f"{guarded.stack.url}/v1/chat/completions", guarded.bearing("one")
    is_running = False
    while not is_running:  # an answer that has ended before the engine is held proves nothing
        with (
            httpx.Client(timeout=GUARD_S) as client,
            client.stream("POST", url, json=endless, headers=headers) as answer,
        ):
            assert answer.status_code == 200
            lines = answer.iter_lines()  # kept, because closing it would end the answer
            while after_first_token and '"content":"' not in next(lines).replace('"content":""', ""):
                pass
            with guarded.stack.engine_held():
                request_id = answer.headers["x-request-id"]
                is_running = not any(request_id in line for line in guarded.stack.generation_lines())
                if is_running:
                    refused = guarded.post("one", "/v1/chat/completions", CHAT)
        assert not is_running or refused.status_code == 429
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert refused.headers["retry-after"] == "1"
    wait_until(lambda: guarded.post("one", "/v1/chat/completions", CHAT).status_code == 200)


def test_grpc_calls_have_rate_limit_metadata_and_details(guarded: Guarded) -> None:
    """Through Envoy the answer has its metadata and the rejection its details."""
    key_id = DIALECT_APIS[0].key_id
    message = content_pb2.Message(role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text="Hello")])
    request = chat_pb2.ChatRequest(model=MODEL, messages=[message])
    with grpc.insecure_channel(f"127.0.0.1:{guarded.stack.ports['envoy']}") as channel:
        stub = chat_pb2_grpc.ChatServiceStub(channel)
        _, call = stub.Chat.with_call(request, metadata=tuple(guarded.bearing("sizes").items()), timeout=GUARD_S)
        assert not [key for key, _ in call.initial_metadata() or () if key.startswith("x-ratelimit-")]
        with pytest.raises(grpc.RpcError) as refused:  # noqa: PT012 accepted once if a minute has passed since
            while True:
                stub.Chat(request, metadata=tuple(guarded.bearing(key_id).items()), timeout=GUARD_S)
    error: Any = refused.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert dict(error.trailing_metadata())["x-ratelimit-remaining-requests"] == "0"
    details = rpc_status.from_call(error).details
    names = {detail.TypeName().rpartition(".")[2] for detail in details}
    assert names == {"ErrorInfo", "QuotaFailure", "RetryInfo"}
    assert any(detail.Is(error_details_pb2.QuotaFailure.DESCRIPTOR) for detail in details)


def test_metrics_are_labelled_by_key(guarded: Guarded) -> None:
    """Tokens and rejections are counted per key."""
    assert guarded.post("sizes", "/v1/chat/completions", CHAT).status_code == 200
    assert guarded.post("sizes", "/v1/chat/completions", {**CHAT, "n": 3}).status_code == 400
    page = httpx.get(f"http://127.0.0.1:{guarded.stack.ports['service_metrics']}/metrics", timeout=GUARD_S).text
    lines = [line for line in page.splitlines() if line.startswith("sluice_quota_") and 'sluice_key="sizes"' in line]
    kinds = [line for line in lines if line.startswith("sluice_quota_tokens")]
    assert len(kinds) == 2
    assert any('sluice_limit="max_n"' in line for line in lines if line.startswith("sluice_quota_refusals"))


def test_usage_commands_show_a_keys_tokens_and_rejections(guarded: Guarded) -> None:
    """`sluice keys usage` shows the tokens and rejections of one key, and so does `sluice usage` with that key."""
    assert guarded.post("sizes", "/v1/chat/completions", CHAT).status_code == 200
    assert guarded.post("sizes", "/v1/chat/completions", {**CHAT, "n": 3}).status_code == 400
    url = f"http://127.0.0.1:{guarded.stack.ports['service_metrics']}/metrics"
    done = CliRunner().invoke(APP, ["keys", "usage", "sizes", "--metrics", url, "--json"])
    (row,) = json.loads(done.stdout)
    assert (row["key"], row["model"]) == ("sizes", MODEL)
    assert min(row["input_tokens"], row["output_tokens"], row["rejected_requests"]) > 0
    own = CliRunner().invoke(APP, ["usage", "--url", guarded.stack.url, "--key", guarded.keys["sizes"], "--json"])
    found = json.loads(own.stdout)
    (model,) = found["models"]
    assert model.pop("requests") > 0
    assert {"key": found["key"], **model} == row
    assert {each["quota_metric"] for each in found["limits"]} >= {"max_n"}
    table = CliRunner().invoke(APP, ["usage", "--url", guarded.stack.url, "--key", guarded.keys["sizes"]]).stdout
    assert f"{row['output_tokens']:,}" in table
    assert "max_n" in table


def test_clients_are_served_while_redis_is_unreachable(guarded: Guarded) -> None:
    """The replica counts by itself, logs the loss once, sets a metric, and counts in Redis again later."""

    def check_limit() -> None:
        """Check that two requests are accepted, and a further one for each 30 s that have passed."""
        began, statuses = time.monotonic(), [200]
        while statuses[-1] == 200:
            statuses.append(guarded.post("lost", "/v1/chat/completions", CHAT).status_code)
        assert statuses[-1] == 429
        assert 2 <= len(statuses) - 2 <= 2 + (time.monotonic() - began) / 30

    check_limit()
    guarded.redis.kill()
    check_limit()
    guarded.until("sluice_quota_store_lost", 1)
    guarded.redis.start()
    guarded.until("sluice_quota_store_lost", 0)
    check_limit()
    assert guarded.stack.output.count("the quota store is lost") == 1
    assert guarded.stack.output.count("the quota store is back") == 1


def test_stream_resumes_after_the_dead_services_slot_expires(guarded: Guarded) -> None:
    """Redis holds the dead service's slot for a while; the stream continues after that."""
    long = {**CHAT, "max_tokens": 1000, "ignore_eos": True, "stream": True, "temperature": 1, "top_p": 1}
    url, headers = f"{guarded.stack.url}/v1/chat/completions", guarded.bearing("one")
    pid = guarded.stack.children()["service"]
    with httpx.Client(timeout=GUARD_S) as client, client.stream("POST", url, json=long, headers=headers) as answer:
        lines = answer.iter_lines()
        while '"content":"' not in next(lines).replace('"content":""', ""):
            pass
        os.kill(pid, signal.SIGKILL)
        rest = [line for line in lines if line.startswith("data: ")]
    assert rest[-1] == "data: [DONE]"
    assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
    wait_until(lambda: guarded.stack.children().get("service", pid) != pid)

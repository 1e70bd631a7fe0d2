"""Limits of clients over gRPC: the charge of each kind of call, the reported state, and the refund on cancellation."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from sluice.v1 import (
    chat_pb2,
    chat_pb2_grpc,
    completion_pb2,
    completion_pb2_grpc,
    content_pb2,
    prompt_pb2,
    response_pb2,
    response_pb2_grpc,
    sampling_pb2,
    text_generation_pb2,
    text_generation_pb2_grpc,
    token_pb2,
    token_pb2_grpc,
    watermark_pb2,
    watermark_pb2_grpc,
)

from tests.engine.fakes import until
from tests.redis_server import RedisServer
from tests.service.auth.key_files import write
from tests.service.fakes import ENDLESS, MODEL, Running, ScriptedRunner, rejection_of, request, running
from tests.waiting import GUARD_S

Code = grpc.StatusCode
SCOPES = ["generate", "tokenize"]


class Team:
    """A service, and a client with limits."""

    def __init__(self, run: Running, key: str) -> None:
        self.run = run
        self.metadata = (("authorization", f"Bearer {key}"),)

    async def chat(self, **fields: Any) -> chat_pb2.ChatResponse:
        """Send an unstreamed chat."""
        answer: chat_pb2.ChatResponse = await self.run.chat.Chat(request(**fields), metadata=self.metadata)
        return answer

    def stream(self, **fields: Any) -> Any:
        """Send a streamed chat."""
        return self.run.chat.StreamChat(request(**fields), metadata=self.metadata)

    async def left(self) -> dict[str, str]:
        """Return the headers with the remaining limits, from a chat sent for this purpose."""
        call = self.run.chat.Chat(request(), metadata=self.metadata)
        await call
        return limits_in(await call.initial_metadata())


@asynccontextmanager
async def limited(
    path: Path, limits: dict[str, int], runner: ScriptedRunner | None = None, **settings: Any
) -> AsyncIterator[Team]:
    """Run a service with one key that has those limits."""
    keys = write(path / "keys.yaml", team={"scopes": SCOPES, "limits": limits})
    async with running(runner, auth={"keys_file": path / "keys.yaml"}, **settings) as run:
        yield Team(run, keys["team"])


def limits_in(metadata: Any) -> dict[str, str]:
    """Return the metadata about limits, by the suffixes of their names."""
    return {key.removeprefix("x-ratelimit-"): value for key, value in metadata or () if key.startswith("x-ratelimit-")}


MESSAGE = content_pb2.Message(role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text="hi")])
PROMPT = prompt_pb2.Prompt(text="hi")
CALLS: dict[str, Callable[[Running, Any], Any]] = {
    "Chat": lambda run, metadata: run.chat.Chat(request(), metadata=metadata),
    "StreamChat": lambda run, metadata: run.chat.StreamChat(request(), metadata=metadata),
    "Complete": lambda run, metadata: completion_pb2_grpc.CompletionServiceStub(run.channel).Complete(
        completion_pb2.CompleteRequest(model=MODEL, prompts=[PROMPT]), metadata=metadata
    ),
    "GenerateText": lambda run, metadata: text_generation_pb2_grpc.TextGenerationServiceStub(run.channel).GenerateText(
        text_generation_pb2.GenerateTextRequest(model=MODEL, text_input="hi"), metadata=metadata
    ),
    "TokenizeText": lambda run, metadata: token_pb2_grpc.TokenServiceStub(run.channel).TokenizeText(
        token_pb2.TokenizeTextRequest(model=MODEL, text="hi"), metadata=metadata
    ),
    "DetokenizeText": lambda run, metadata: token_pb2_grpc.TokenServiceStub(run.channel).DetokenizeText(
        token_pb2.DetokenizeTextRequest(model=MODEL, token_ids=[65]), metadata=metadata
    ),
    "CountTokens": lambda run, metadata: token_pb2_grpc.TokenServiceStub(run.channel).CountTokens(
        token_pb2.CountTokensRequest(text=token_pb2.TokenizeTextRequest(model=MODEL, text="hi")), metadata=metadata
    ),
    "DetectWatermark": lambda run, metadata: watermark_pb2_grpc.WatermarkServiceStub(run.channel).DetectWatermark(
        watermark_pb2.DetectWatermarkRequest(model=MODEL, text="hi there"), metadata=metadata
    ),
}


@pytest.mark.parametrize("name", CALLS)
async def test_every_generating_rpc_counts_towards_the_limits(tmp_path: Path, name: str) -> None:
    """The first call succeeds and reports that nothing is left; the second is rejected with a retry delay."""
    async with limited(tmp_path, {"requests_per_minute": 1}) as team:
        call = CALLS[name](team.run, team.metadata)
        if name.startswith("Stream"):
            assert [event async for event in call]
        else:
            await call
        assert limits_in(await call.initial_metadata()) == {
            "limit-requests": "1",
            "remaining-requests": "0",
            "reset-requests": "1m0s",
        }
        rejection = await rejection_of(CALLS[name](team.run, team.metadata))
    assert (rejection.code, rejection.info.reason) == (Code.RESOURCE_EXHAUSTED, "RATE_LIMITED")
    assert rejection.retry_after_s is not None
    assert 0 < rejection.retry_after_s <= 60
    assert [each.subject for each in rejection.quota_violations] == ["key:team"]
    assert limits_in(rejection.error.trailing_metadata())["remaining-requests"] == "0"


async def test_charge_equals_the_usage_of_the_answer(tmp_path: Path) -> None:
    """The charge equals the usage of the answer, streamed or not."""
    async with limited(tmp_path, {"input_tokens_per_minute": 60, "output_tokens_per_minute": 1000}) as team:
        began = time.monotonic()
        answer = await team.chat(stopping=sampling_pb2.StopParams(max_tokens=900))
        used = answer.usage
        assert used.completion_tokens < 10
        async for _ in team.stream(stopping=sampling_pb2.StopParams(max_tokens=900)):
            pass
        left = await team.left()
        refilled = time.monotonic() - began  # a token in a second
    assert 60 - 3 * used.prompt_tokens <= int(left["remaining-input-tokens"])
    assert int(left["remaining-input-tokens"]) <= 60 - 2 * used.prompt_tokens + refilled
    assert int(left["remaining-output-tokens"]) > 1000 - 4 * used.completion_tokens


async def test_sizes_above_the_limit_are_rejected_by_name(tmp_path: Path) -> None:
    """max_tokens and n above the key's limits are invalid; without max_tokens, the limit applies."""
    async with limited(tmp_path, {"max_tokens": 3, "max_n": 2}, ScriptedRunner("endless ", end=False)) as team:
        for fields, field in (
            ({"stopping": sampling_pb2.StopParams(max_tokens=4)}, "stopping.max_tokens"),
            ({"n": 3}, "n"),
        ):
            rejection = await rejection_of(team.run.chat.Chat(request(**fields), metadata=team.metadata))
            assert (rejection.code, rejection.info.reason) == (Code.INVALID_ARGUMENT, "LIMIT_EXCEEDED")
            assert rejection.fields == [(field, "LIMIT_EXCEEDED")]
        answer = await team.chat()
        assert answer.usage.completion_tokens == 3
        response = response_pb2.CreateResponseRequest(model=MODEL, input=[], max_output_tokens=4)
        item = response.input.add()
        item.message.role = content_pb2.ROLE_USER
        item.message.content.add().text = "hi"
        stub = response_pb2_grpc.ResponseServiceStub(team.run.channel)
        rejection = await rejection_of(stub.CreateResponse(response, metadata=team.metadata))
        assert rejection.fields == [("max_output_tokens", "LIMIT_EXCEEDED")]


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("has_begun", [True, False])
async def test_cancellation_releases_the_slot(tmp_path: Path, *, is_streamed: bool, has_begun: bool) -> None:
    """A cancellation before or after the first token releases the slot for the client's next request."""
    runner = ScriptedRunner("on and on ", end=False)
    async with limited(tmp_path, {"concurrent_requests": 1}, runner, engine=ENDLESS) as team:
        if not has_begun:
            runner.gate.clear()
        call = team.stream() if is_streamed else team.run.chat.Chat(request(), metadata=team.metadata)
        if is_streamed and has_begun:
            await call.initial_metadata()
        await until(lambda: runner.num_steps > 3 if has_begun else runner.entered.is_set())
        rejection = await rejection_of(team.stream())
        assert (rejection.code, rejection.info.reason) == (Code.RESOURCE_EXHAUSTED, "CONCURRENCY_LIMITED")
        call.cancel()
        runner.gate.set()
        await team.run.until_idle()
        short = team.stream(stopping=sampling_pb2.StopParams(max_tokens=1))
        assert [event async for event in short]


@pytest.mark.slow
async def test_tokens_that_the_client_never_read_are_charged(tmp_path: Path) -> None:
    """A client that reads nothing and cancels is charged for everything computed for it."""
    runner = ScriptedRunner("on and on ", end=False)
    narrow = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024)]
    async with (
        limited(tmp_path, {"output_tokens_per_minute": 600}, runner, engine=ENDLESS) as team,
        aio.insecure_channel(f"127.0.0.1:{team.run.port}", options=narrow) as channel,
    ):
        call = chat_pb2_grpc.ChatServiceStub(channel).StreamChat(request(n=4), metadata=team.metadata)
        await call.initial_metadata()
        await until(lambda: runner.num_steps > 5000)
        call.cancel()
        await team.run.until_idle()
        num_generated = team.run.engine.stats().num_generated_tokens
        rejection = await rejection_of(team.stream())
    assert num_generated > 20_000
    assert rejection.retry_after_s is not None
    assert rejection.retry_after_s * 10 > 0.9 * num_generated - 600  # ten are refilled per second


async def test_request_rejected_for_capacity_is_not_charged(tmp_path: Path) -> None:
    """A request that is rejected because of the engine's load costs its client nothing."""
    runner = ScriptedRunner("on and on ", end=False)
    sizes = {**ENDLESS, "max_queue_requests": 1, "max_batch_sequences": 1}
    async with limited(tmp_path, {"requests_per_minute": 3}, runner, engine=sizes) as team:
        running_call = team.stream()
        await running_call.initial_metadata()
        await until(lambda: runner.num_steps > 3)
        waiting = team.stream()
        await until(lambda: team.run.engine.num_open == 2)
        rejection = await rejection_of(team.stream())
        assert (rejection.code, rejection.info.reason) == (Code.RESOURCE_EXHAUSTED, "QUEUE_FULL")
        assert limits_in(rejection.error.trailing_metadata())["remaining-requests"] == "1"
        running_call.cancel()
        waiting.cancel()
        await team.run.until_idle()


async def test_log_names_the_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log line of a rejected call has the key, the exceeded limit and its owner."""
    caplog.set_level("INFO", "sluice.access")
    async with limited(tmp_path, {"max_n": 1}) as team:
        await rejection_of(team.stream(n=2))
        await until(lambda: bool(caplog.records))
    fields: dict[str, str] = vars(caplog.records[-1])["fields"]
    assert (fields["key"], fields["limit"], fields["limited"]) == ("team", "max_n", "key:team")


async def test_two_services_share_a_redis(tmp_path: Path, redis: RedisServer) -> None:
    """Usage at one service counts at the other; while Redis is lost, each counts alone or rejects requests."""
    limits = {"requests_per_minute": 1}
    shared = {"redis_url": redis.url, "redis_timeout_s": GUARD_S}
    async with (
        limited(tmp_path, limits, quota=shared) as first,
        running(auth={"keys_file": tmp_path / "keys.yaml"}, quota={**shared, "on_store_loss": "refuse"}) as other,
    ):
        second = Team(other, first.metadata[0][1].removeprefix("Bearer "))
        await first.chat()
        rejection = await rejection_of(second.stream())
        assert (rejection.code, rejection.info.reason) == (Code.RESOURCE_EXHAUSTED, "RATE_LIMITED")
        redis.kill()
        await first.chat()
        assert (await rejection_of(first.stream())).info.reason == "RATE_LIMITED"
        rejection = await rejection_of(second.stream())
        assert (rejection.code, rejection.info.reason) == (Code.UNAVAILABLE, "QUOTA_UNAVAILABLE")


async def test_models_limit_applies_to_callers_without_keys(tmp_path: Path) -> None:
    """Clients without keys share the limit of a model; its state is not reported to any of them."""
    async with running(quota={"limits_by_model": {"scrip*": {"requests_per_minute": 1}}}) as run:
        call = run.chat.Chat(request())
        await call
        assert limits_in(await call.initial_metadata()) == {}
        rejection = await rejection_of(run.chat.Chat(request()))
    assert rejection.info.reason == "RATE_LIMITED"
    assert [each.subject for each in rejection.quota_violations] == ["model:scrip*"]

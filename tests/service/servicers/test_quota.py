"""QuotaService: a caller reads its own usage and limits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
from sluice.v1 import quota_pb2, quota_pb2_grpc

from tests.service.auth.key_files import write
from tests.service.background.background_calls import in_background, storing
from tests.service.batches import batch_calls as batches
from tests.service.fakes import MODEL, Running, ScriptedRunner, rejection_of, request, running
from tests.service.servicers.responses.test_response import stub_of as response_stub
from tests.waiting import GUARD_S


async def usage(run: Running, key: str | None) -> quota_pb2.GetUsageResponse:
    """Return the usage of a key."""
    stub: Any = quota_pb2_grpc.QuotaServiceStub(run.channel)
    answer: quota_pb2.GetUsageResponse = await stub.GetUsage(quota_pb2.GetUsageRequest(), metadata=bearing(key))
    return answer


def bearing(key: str | None) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call with a key, or without one."""
    return (("authorization", f"Bearer {key}"),) if key else ()


async def test_a_key_reads_its_own_usage(tmp_path: Path) -> None:
    """A key of any scope sees the tokens of its own requests and its limits, and nothing of others."""
    path = tmp_path / "keys.yaml"
    limits = {"requests_per_minute": 1, "max_tokens": 64}
    keys = write(path, team={"scopes": ["generate"], "limits": limits}, other={"scopes": ["tokenize"]})
    async with running(auth={"keys_file": path}) as run:
        answer = await run.chat.Chat(request(), metadata=bearing(keys["team"]))
        await rejection_of(run.chat.Chat(request(), metadata=bearing(keys["team"])))
        team, other = await usage(run, keys["team"]), await usage(run, keys["other"])
        (model,) = team.models
        assert (team.key, model.model, model.requests, model.rejected_requests) == ("team", MODEL, 1, 1)
        assert model.input_tokens == answer.usage.prompt_tokens
        assert model.output_tokens == answer.usage.completion_tokens
        requests, max_tokens = team.limits
        assert (requests.quota_metric, requests.limit, requests.remaining) == ("requests_per_minute", 1, 0)
        assert 0 < requests.reset_after.ToSeconds() <= 60
        assert (max_tokens.quota_metric, max_tokens.limit) == ("max_tokens", 64)
        assert not max_tokens.HasField("remaining")
        assert not max_tokens.HasField("reset_after")
        assert (other.key, list(other.models), list(other.limits)) == ("other", [], [])
        stub: Any = quota_pb2_grpc.QuotaServiceStub(run.channel)
        rejection = await rejection_of(stub.GetUsage(quota_pb2.GetUsageRequest()))
        assert rejection.code is grpc.StatusCode.UNAUTHENTICATED


async def test_clients_without_a_key_are_counted_together() -> None:
    """Without keys, the usage is that of all clients."""
    async with running() as run:
        answer = await run.chat.Chat(request())
        found = await usage(run, None)
        assert (found.key, found.models[0].output_tokens) == ("", answer.usage.completion_tokens)
        assert found.since.ToNanoseconds() > 0


async def test_background_and_batches_count(tmp_path: Path) -> None:
    """Responses in the background and requests of batches use up the limits of their key."""
    keys = write(tmp_path / "keys.yaml", team={"limits": {"requests_per_minute": 3}})
    settings = storing(tmp_path) | {"auth": {"keys_file": tmp_path / "keys.yaml"}}
    team: Any = bearing(keys["team"])
    async with running(ScriptedRunner("hello"), **settings) as run:
        await response_stub(run).CreateResponse(in_background(), metadata=team)
        lines = [batches.chat_line(name) for name in ("a", "b")]
        await batches.stub_of(run).CreateBatch(iter(batches.messages(lines)), metadata=team)
        async with asyncio.timeout(GUARD_S):
            while not (found := await usage(run, keys["team"])).models or found.models[0].requests < 3:  # noqa: ASYNC110  as clients do
                await asyncio.sleep(0.01)  # a client polls
        await run.until_idle()
        rejection = await rejection_of(run.chat.Chat(request(), metadata=team))
        (model,) = (await usage(run, keys["team"])).models
    assert "is 3 requests a minute" in rejection.text
    assert (model.requests, model.output_tokens) == (3, 3 * len("hello!"))

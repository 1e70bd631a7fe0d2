"""QuotaService: a caller reads its own usage and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
from sluice.v1 import quota_pb2, quota_pb2_grpc

from tests.service.auth.key_files import write
from tests.service.fakes import MODEL, Running, rejection_of, request, running


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

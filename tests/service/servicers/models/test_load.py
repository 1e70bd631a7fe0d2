"""`GetLoad` reports engines, endpoints, latencies and the outcomes of calls."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from sluice.v1 import endpoint_pb2, load_pb2, model_pb2

from service.observability.telemetry import Telemetry
from tests.service.endpoint_fakes import both, serving
from tests.service.fakes import MODEL, rejection_of, request, running
from tests.waiting import GUARD_S


async def load_of(run: Any) -> load_pb2.GetLoadResponse:
    """Return the current load."""
    return await run.models.GetLoad(load_pb2.GetLoadRequest())  # type: ignore[no-any-return]


async def test_load_report_has_the_engines_state_and_latencies() -> None:
    """State, counts and latencies of one answer are reported, each latency once; blocks are free again."""
    async with running() as run:
        before = (await load_of(run)).models[0]
        assert (before.requests, before.HasField("queue_time")) == (0, False)
        await run.chat.Chat(request("tulip"))
        await run.until_idle()
        load = await load_of(run)
        (model,) = load.models
        assert (model.model, model.running, model.waiting, model.blocks, model.used_blocks) == (MODEL, 0, 0, 64, 0)
        assert (model.prompt_tokens, model.cached_prompt_tokens) == (len("tulip"), 0)
        assert (model.generated_tokens, model.requests, model.preemptions) == (len("hello") + 1, 1, 0)
        for times in (model.queue_time, model.time_to_first_token, model.time_per_output_token):
            assert (sum(times.counts), len(times.counts)) == (1, len(times.bounds) + 1)
        assert load.started.ToNanoseconds() < time.time_ns()


async def test_failed_calls_are_counted_by_error_reason() -> None:
    """Successful calls have no reason."""
    async with running() as run:
        await run.chat.Chat(request())
        await rejection_of(run.models.GetModel(model_pb2.GetModelRequest(model="nobody")))
        async with asyncio.timeout(GUARD_S):
            while True:  # calls are counted after their status has been sent
                calls = {(each.method, each.code, each.reason): each.calls for each in (await load_of(run)).calls}
                if ("sluice.v1.ModelService/GetModel", "NOT_FOUND", "MODEL_NOT_FOUND") in calls:
                    break
        assert calls["sluice.v1.ModelService/GetModel", "NOT_FOUND", "MODEL_NOT_FOUND"] == 1
        assert calls["sluice.v1.ChatService/Chat", "OK", ""] == 1


async def test_requests_are_counted_per_entity() -> None:
    """Requests routed by traffic or by name are counted; the count of a removed entity is dropped."""
    async with serving("a", "b") as run:
        await run.create("x", *both(100, 0))
        for _ in range(3):
            await run.chat.Chat(request(model="x"))
        found = [(each.endpoint, each.entity, each.model, each.requests) for each in (await load_of(run)).entities]
        assert found == [("x", "a", "a", 3), ("x", "b", "b", 0)]
        await run.update("x", ("b", "b", 100))
        await run.update("x", *both(100, 0))
        assert [each.requests for each in (await load_of(run)).entities] == [0, 0]
        await run.endpoints.DeleteEndpoint(endpoint_pb2.DeleteEndpointRequest(name="x"))
        assert not (await load_of(run)).entities


async def test_concurrent_readers_get_all_metrics() -> None:
    """Each of several concurrent readers gets each metric once."""
    telemetry = Telemetry(None)
    try:
        telemetry.instruments.queue_time.record(1.0, {"gen_ai.request.model": "m"})

        def read() -> list[float]:
            name = "sluice_server_queue_time_seconds_count"
            return [sample.value for _ in range(20) for sample in telemetry.samples() if sample.name == name]

        found = await asyncio.gather(*(asyncio.to_thread(read) for _ in range(4)))
        assert found == [[1.0] * 20] * 4
    finally:
        telemetry.shutdown()

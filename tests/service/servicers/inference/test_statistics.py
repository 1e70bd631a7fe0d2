"""The statistics of models, as clients of Triton read them."""

from __future__ import annotations

import time
from typing import Any

import grpc
from sluice.inference import model_statistics_pb2

from tests.service.encoder_fakes import ENCODER, running_encoder
from tests.service.fakes import MODEL, ScriptedRunner, rejection_of, running
from tests.service.servicers.inference.test_infer import request_of, streamed, stub_of

TEXT: dict[str, Any] = {}
CHAT: dict[str, Any] = {"name": "messages", "text": '[{"role": "user", "content": "hi"}]'}
Request = model_statistics_pb2.ModelStatisticsRequest


async def test_statistics_count_inferences_and_their_times() -> None:
    """Texts, chats and streams are counted with their waits; a valid request that is rejected later is a failure."""
    runner = ScriptedRunner("hello")
    runner.delay_s = 0.001
    began_ms = time.time_ns() // 1_000_000
    async with running(runner) as run:
        stub = stub_of(run)
        (before,) = (await stub.ModelStatistics(Request(name=MODEL))).model_stats
        for fields in (TEXT, CHAT):
            await stub.ModelInfer(request_of(**fields))
            await streamed(run, request_of(**fields, parameters={"stream": True}))
        await rejection_of(stub.ModelInfer(request_of(text="x" * 1000)))
        await rejection_of(stub.ModelInfer(request_of(parameters={"temperature": 9.0})))  # no valid request
        (after,) = (await stub.ModelStatistics(Request())).model_stats
        rejection = await rejection_of(stub.ModelStatistics(Request(name=MODEL, version="7")))
    assert (before.name, before.inference_count, before.last_inference) == (MODEL, 0, 0)
    assert (after.inference_count, after.execution_count) == (4, 4)
    assert began_ms <= after.last_inference <= time.time_ns() // 1_000_000
    found = after.inference_stats
    assert (found.success.count, found.fail.count, found.queue.count, found.compute_infer.count) == (4, 1, 4, 4)
    assert found.queue.ns + found.compute_infer.ns == found.success.ns
    assert min(found.queue.ns, found.compute_infer.ns, found.fail.ns) > 0
    assert rejection.code is grpc.StatusCode.NOT_FOUND


async def test_statistics_count_each_inference_as_queued() -> None:
    """An embedding is counted, too: perf_analyzer finds a model's version by the growth of `queue`."""
    async with running_encoder() as run:
        await run.inference.ModelInfer(request_of(model_name=ENCODER))
        (model,) = (await run.inference.ModelStatistics(Request(name=ENCODER))).model_stats
    found = model.inference_stats
    assert (found.success.count, found.queue.count, found.compute_infer.count) == (1, 1, 1)
    assert (found.compute_input.count, found.compute_output.count) == (1, 1)
    assert found.queue.ns == 0

"""The whole service under random load of all kinds: every call ends once, and everything is released."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.v1 import completion_pb2

from tests.engine.fakes import until
from tests.service.random_calls import (
    BEGINNINGS,
    GENERATOR,
    METHODS,
    RandomCall,
    random_call,
)
from tests.service.server.endings import Ending, check_ending, end_of
from tests.service.server.random_models import serving
from tests.service.server.random_service import Service

NUM_CALLS = 2000
NUM_CALLERS = 32
STATUSES = {
    grpc.StatusCode.OK,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}


async def until_idle(service: Service) -> None:
    """Return when all engines are idle and every block is free; fail if that never happens."""

    def is_idle() -> bool:
        stats = [served.engine.stats() for served in (service.generator, service.encoder)]
        return not any(each.num_running or each.num_waiting for each in stats) and all(
            each.num_free_blocks == each.num_blocks for each in stats
        )

    await until(is_idle)
    await service.generator.engine.check()
    assert not service.generator.engine.num_open
    assert not service.encoder.engine.num_open


async def greedy_texts(service: Service) -> list[str]:
    """Return the model's answers to a few prompts that share prefixes with the load."""
    texts = []
    for text in BEGINNINGS:
        fields: dict[str, Any] = {"sampling": {"temperature": 0}, "stopping": {"max_tokens": 20, "ignore_eos": True}}
        request = completion_pb2.CompleteRequest(model=GENERATOR, prompts=[{"text": f"{text}abba"}], **fields)
        texts.append((await service.methods["Complete"](request)).choices[0].text)
    return texts


@pytest.mark.long
async def test_2000_random_calls_end_once_and_release_everything(tmp_path: Path) -> None:
    """Each call, cancelled, late, preempted or rejected, ends once, and every block and task is released."""
    draw = random.Random(11)
    calls = [random_call(draw) for _ in range(NUM_CALLS)]
    room = asyncio.Semaphore(NUM_CALLERS)
    async with serving(tmp_path) as service:

        async def run(expected: RandomCall) -> Ending:
            async with room:
                return await end_of(service, expected)

        texts = await greedy_texts(service)
        num_tasks = len(asyncio.all_tasks())
        endings = await asyncio.gather(*map(run, calls))
        await until_idle(service)
        await until(lambda: len(asyncio.all_tasks()) <= num_tasks)
        assert await greedy_texts(service) == texts
        stats = service.generator.engine.stats()
    for ending in endings:
        check_ending(ending)

    assert stats.num_preemptions > 0
    assert stats.num_prefix_hit_tokens > 0
    by_status: dict[grpc.StatusCode, list[Ending]] = {}
    for ending in endings:
        by_status.setdefault(ending.status, []).append(ending)
    assert by_status.keys() == STATUSES, "the load does not reach every end"
    for status in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
        assert {ending.call.method for ending in by_status[status]} == METHODS
    left = [ending for ending in by_status[grpc.StatusCode.CANCELLED] if ending.call.is_streamed]
    assert {bool(ending.got) for ending in left} == {False, True}

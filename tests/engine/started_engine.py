"""An engine at work on a paged runner, for the tests of its door."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from service.engine.engine import Engine, StepObserver
from service.generation.output import GenerationOutput
from service.generation.request import GenerationRequest
from tests.engine.fakes import END, ByteTokenizer, PagedRunner, Rule, config_of, read, sum_rule

ENDLESS: dict[str, Any] = {
    "num_blocks": 10_000,
    "max_model_len": 40_000,
}  # an answer without max_tokens does not end in a test's time


@asynccontextmanager
async def started(
    rule: Rule = sum_rule,
    *,
    observer: StepObserver | None = None,
    clock: Callable[[], float] = time.monotonic,
    **sizes: Any,
) -> AsyncIterator[tuple[Engine, PagedRunner]]:
    """An engine at work. In the end it must be idle with every block free, or have failed."""
    config = config_of(**sizes)
    runner = PagedRunner(rule, config.block_size)
    async with Engine(runner, ByteTokenizer(), config, eos_token_ids=[END], observer=observer, clock=clock) as engine:
        try:
            yield engine, runner
        finally:
            if runner.gate:
                runner.gate.set()
    if not engine.failed.done():
        assert is_idle(engine)
        assert not runner.kept
        engine._core.check()


def is_idle(engine: Engine) -> bool:
    stats = engine.stats()
    return (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)


async def generate(engine: Engine, wanted: GenerationRequest) -> list[GenerationOutput]:
    async with engine.generate(wanted) as stream:
        return await read(stream)


def tokens(outputs: list[GenerationOutput], choice_index: int = 0) -> list[int]:
    return [i for output in outputs if output.choice_index == choice_index for i in output.token_ids]

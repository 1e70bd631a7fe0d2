"""Calls that their client cancels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from grpc import aio

from tests.engine.fakes import until
from tests.service.fakes import ENDLESS, Running, ScriptedRunner, running


async def check_cancellation(make_call: Callable[[Running], Any], moment: str) -> None:
    """Cancel a call, streamed or not, and assert that everything is released.

    The `moment` is before the end of the first step, or after the first token.
    """
    runner = ScriptedRunner("endless ", end=False)
    if moment == "before":
        runner.gate.clear()
    async with running(runner, engine=ENDLESS) as run:
        call = make_call(run)
        reading = asyncio.create_task(_first_answer(call))
        await until(runner.entered.is_set)
        if moment == "after":
            await until(lambda: run.engine.stats().num_generated_tokens > 0)
        call.cancel()
        await until(lambda: not run.engine.num_open)
        runner.gate.set()  # the step with the prompt that was cancelled before ends only now
        await until(lambda: run.engine.stats().num_steps > 0)
        await run.until_idle()
        await asyncio.gather(reading, return_exceptions=True)


async def _first_answer(call: Any) -> object:
    return await (call if isinstance(call, aio.UnaryUnaryCall) else call.read())

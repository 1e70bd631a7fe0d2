"""Requests with constraints in the engine's client: compiled during steps, within limits, before admission."""

from __future__ import annotations

import asyncio
import time

import pytest

from service.generation.errors import (
    ConstraintFailed,
    DeadlineExceeded,
    EngineClosed,
    EngineOverloaded,
    UnsupportedConstraint,
)
from service.generation.formats.constraint import Constraint, Grammar
from tests.engine.fakes import Clock, read, request, until
from tests.engine.started_engine import Starter, generate, tokens
from tests.waiting import GUARD_S


def constraint(text: str) -> Constraint:
    """Return a constraint of the letters of a text, or one of the scripted failures."""
    return Constraint(Grammar(text, "output.schema"))


async def test_choices_follow_the_compiled_constraint(start: Starter) -> None:
    """A text of allowed letters completes, and another one fails its request alone.

    Each choice has a state of its own.
    """
    async with start.started("abab", "baba") as (engine, _):
        outputs = await generate(engine, request(constraint=constraint("ab"), n=2, max_tokens=4))
        assert [tokens(outputs, index) for index in range(2)] == [list(b"abab"), list(b"baba")]
        with pytest.raises(ConstraintFailed):
            await generate(engine, request(constraint=constraint("a")))
        assert tokens(await generate(engine, request(max_tokens=4))) == list(b"abab")


async def test_entering_waits_for_the_compilation_while_steps_continue(start: Starter) -> None:
    """Other requests are served meanwhile, and the waiting one is admitted after its compilation."""
    async with start.started("abab") as (engine, script):
        script.pause_compiling()
        waiting = asyncio.create_task(generate(engine, request(constraint=constraint("ab"), max_tokens=4)))
        await until(lambda: script.num_compiling() == 1)
        for _ in range(3):
            assert tokens(await generate(engine, request(max_tokens=4))) == list(b"abab")
        assert not waiting.done()
        script.resume_compiling()
        assert tokens(await waiting) == list(b"abab")


@pytest.mark.parametrize(
    ("text", "message"), [("rejected", "it can't be enforced"), ("breaks", "the constraint can't be compiled")]
)
async def test_constraint_that_cannot_be_compiled_is_rejected_with_its_field(
    start: Starter, caplog: pytest.LogCaptureFixture, text: str, message: str
) -> None:
    """Any exception of the compiler becomes an error of the request, without internal details."""
    async with start.started() as (engine, script):
        with pytest.raises(UnsupportedConstraint, match=message) as caught:
            await generate(engine, request(constraint=constraint(text)))
        assert caught.value.field == "output.schema"
        assert script.steps() == []
        if text == "breaks":
            await until(lambda: "secret detail" in caplog.text)


async def test_requests_together_wait_for_all_their_constraints(start: Starter) -> None:
    """Equal constraints are compiled once. If one is rejected, none of the requests runs."""
    async with start.started("ab") as (engine, script):
        same = [request(constraint=constraint("ab"), max_tokens=2) for _ in range(3)]
        async with engine.generate(*same, request(max_tokens=2)) as stream:
            assert len([output for output in await read(stream) if output.finish_reason]) == 4
        assert script.num_compiling() == 1
        num_steps = len(script.steps())
        with pytest.raises(UnsupportedConstraint):
            async with engine.generate(*same, request(constraint=constraint("rejected"))):
                pass
        assert len(script.steps()) == num_steps


async def test_compilation_that_computes_too_long_is_rejected_with_its_field(start: Starter) -> None:
    """The limit is in processor time, and the error states it."""
    async with start.started(max_compile_s=0.05) as (engine, script):
        script.pause_compiling()
        with pytest.raises(UnsupportedConstraint, match=r"took longer than 0\.05 s of processor time") as caught:
            await generate(engine, request(constraint=constraint("computes")))
        assert caught.value.field == "output.schema"


async def test_compilation_that_other_work_delays_may_be_retried(start: Starter) -> None:
    """Elapsed time without processor time results in EngineOverloaded."""
    async with start.started("ab", max_compile_s=0.05, max_compile_wait_s=0.05) as (engine, script):
        script.pause_compiling()
        with pytest.raises(EngineOverloaded, match=r"not compiled within 0\.3 s|busy with others"):
            await generate(engine, request(constraint=constraint("ab")))
        script.resume_compiling()


@pytest.mark.slow
async def test_slow_compilations_of_one_caller_leave_a_thread_to_others(start: Starter) -> None:
    """Two constraints of one caller are compiled at a time, and one of another caller."""
    async with start.started("abab", max_compile_wait_s=GUARD_S) as (engine, script):
        script.pause_compiling()
        flood = [
            asyncio.create_task(generate(engine, request(constraint=constraint(t), caller_id="a"))) for t in "cdef"
        ]
        await until(lambda: script.num_compiling() == 2)
        other = asyncio.create_task(generate(engine, request(constraint=constraint("ab"), caller_id="b", max_tokens=4)))
        await until(lambda: script.num_compiling() == 3)
        script.resume_compiling()
        assert tokens(await other) == list(b"abab")
        results = await asyncio.gather(*flood, return_exceptions=True)
        assert {type(each) for each in results} == {ConstraintFailed}


@pytest.mark.slow
async def test_compilation_that_finds_no_thread_may_be_retried(start: Starter) -> None:
    """A constraint that waits too long for a thread results in EngineOverloaded."""
    async with start.started(max_compile_wait_s=0.2) as (engine, script):
        script.pause_compiling()
        compiling: list[asyncio.Task[object]] = []
        while script.num_compiling() < 2:  # a slow machine may not start one within the short limit
            both = [request(constraint=constraint(text)) for text in ("a", "b")]
            compiling.extend(asyncio.create_task(generate(engine, each)) for each in both)
            await until(lambda: script.num_compiling() == 2 or all(each.done() for each in compiling))
        with pytest.raises(EngineOverloaded, match="busy") as caught:
            await generate(engine, request(constraint=constraint("c")))
        assert caught.value.retry_after_s == 1
        await asyncio.gather(*compiling, return_exceptions=True)
        assert script.num_compiling() == 2


@pytest.mark.parametrize("num_before", [0, 2], ids=["compiling", "queued"])
@pytest.mark.parametrize("left_s", [0.001, 0.003, 0.05])
async def test_deadline_before_the_limit_is_reported(start_thread: Starter, left_s: float, num_before: int) -> None:
    """A deadline before the compilation's limits results in DeadlineExceeded, even if the clock stands still."""
    clock = Clock()
    async with start_thread.started(clock=clock, max_compile_wait_s=5) as (engine, script):
        script.pause_compiling()
        others = [asyncio.create_task(generate(engine, request(constraint=constraint(t)))) for t in "ab"[:num_before]]
        await until(lambda: script.num_compiling() == num_before)
        with pytest.raises(DeadlineExceeded):
            await generate(engine, request(constraint=constraint("c"), deadline=clock.now + left_s))
        script.resume_compiling()
        await asyncio.gather(*others, return_exceptions=True)


async def test_constraint_of_a_caller_that_left_is_not_compiled(start: Starter) -> None:
    """A queued constraint is dropped when its caller leaves."""
    async with start.started("ab") as (engine, script):
        script.pause_compiling()
        first = [asyncio.create_task(generate(engine, request(constraint=constraint(text)))) for text in ("a", "b")]
        await until(lambda: script.num_compiling() == 2)
        left = asyncio.create_task(generate(engine, request(constraint=constraint("c"))))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        await engine.check()  # commands are handled in order
        script.resume_compiling()
        await asyncio.gather(*first, return_exceptions=True)
        await generate(engine, request(constraint=constraint("ab"), max_tokens=2))
        assert script.num_compiling() == 3


async def test_closing_engine_ends_requests_that_wait_for_a_compilation(start: Starter) -> None:
    """A request that waits for its constraint ends with EngineClosed."""
    engine, script = start.generator()
    async with engine:
        script.pause_compiling()
        waiting = asyncio.create_task(generate(engine, request(constraint=constraint("a"))))
        await until(lambda: script.num_compiling() == 1)
    with pytest.raises(EngineClosed):
        await waiting
    script.resume_compiling()


async def test_deadline_in_the_past_is_rejected_before_a_compilation(start: Starter) -> None:
    """An expired request with a constraint is rejected without a compilation."""
    async with start.started() as (engine, script):
        with pytest.raises(DeadlineExceeded):
            await generate(engine, request(constraint=constraint("a"), deadline=time.monotonic()))
        assert script.num_compiling() == 0

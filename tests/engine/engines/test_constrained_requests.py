"""Constraints on their way through an engine's front: compiled beside the steps, within limits, before admission."""

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


def constraint(text: str) -> Constraint:
    """What a scripted engine makes of a text: the letters that are allowed, or a way to fail."""
    return Constraint(Grammar(text, "output.schema"))


async def test_choices_follow_the_compiled_constraint(start: Starter) -> None:
    """A text within the letters passes, one beyond them ends its request alone; each choice has a state of its own."""
    async with start.started("abab", "baba") as (engine, _):
        outputs = await generate(engine, request(constraint=constraint("ab"), n=2, max_tokens=4))
        assert [tokens(outputs, index) for index in range(2)] == [list(b"abab"), list(b"baba")]
        with pytest.raises(ConstraintFailed):
            await generate(engine, request(constraint=constraint("a")))
        assert tokens(await generate(engine, request(max_tokens=4))) == list(b"abab")


async def test_entry_waits_for_the_compilation_while_steps_go_on(start: Starter) -> None:
    """Others are served meanwhile, without a round trip; whoever waits is admitted when its constraint is compiled."""
    async with start.started("abab") as (engine, script):
        script.compile_slowly()
        waiting = asyncio.create_task(generate(engine, request(constraint=constraint("ab"), max_tokens=4)))
        await until(lambda: script.num_compiling() == 1)
        for _ in range(3):
            assert tokens(await generate(engine, request(max_tokens=4))) == list(b"abab")
        assert not waiting.done()
        script.compile_again()
        assert tokens(await waiting) == list(b"abab")


@pytest.mark.parametrize(
    ("text", "message"), [("refused", "it can't be enforced"), ("breaks", "the constraint can't be compiled")]
)
async def test_constraint_that_can_not_be_compiled_is_refused_by_its_field(
    start: Starter, caplog: pytest.LogCaptureFixture, text: str, message: str
) -> None:
    """Whatever the compiler raises is the request's own error, without the inner words of a failure."""
    async with start.started() as (engine, script):
        with pytest.raises(UnsupportedConstraint, match=message) as refusal:
            await generate(engine, request(constraint=constraint(text)))
        assert refusal.value.field == "output.schema"
        assert script.steps() == []
        if text == "breaks":
            await until(lambda: "secret detail" in caplog.text)


async def test_requests_together_wait_for_all_their_constraints(start: Starter) -> None:
    """Equal ones are compiled once; if one is refused, none of the requests is run."""
    async with start.started("ab") as (engine, script):
        same = [request(constraint=constraint("ab"), max_tokens=2) for _ in range(3)]
        async with engine.generate(*same, request(max_tokens=2)) as stream:
            assert len([output for output in await read(stream) if output.finish_reason]) == 4
        assert script.num_compiling() == 1
        num_steps = len(script.steps())
        with pytest.raises(UnsupportedConstraint):
            async with engine.generate(*same, request(constraint=constraint("refused"))):
                pass
        assert len(script.steps()) == num_steps


async def test_compilation_that_computes_too_long_is_refused_by_its_field(start: Starter) -> None:
    """The limit is of processor time, and the error states it."""
    async with start.started(max_compile_s=0.05) as (engine, script):
        script.compile_slowly()
        with pytest.raises(UnsupportedConstraint, match=r"took longer than 0\.05 s of processor time") as refusal:
            await generate(engine, request(constraint=constraint("computes")))
        assert refusal.value.field == "output.schema"


async def test_compilation_that_other_work_delays_may_be_tried_again(start: Starter) -> None:
    """Elapsed time without processor time is no fault of the constraint."""
    async with start.started("ab", max_compile_s=0.05, max_compile_wait_s=0.05) as (engine, script):
        script.compile_slowly()
        with pytest.raises(EngineOverloaded, match=r"not compiled within 0\.3 s|busy with others"):
            await generate(engine, request(constraint=constraint("ab")))
        script.compile_again()


@pytest.mark.slow
async def test_slow_compilations_of_one_caller_leave_a_thread_to_others(start: Starter) -> None:
    """Whatever the one asks for: two of its constraints are compiled at a time, and one of another's beside."""
    async with start.started("abab", max_compile_wait_s=0.5) as (engine, script):
        script.compile_slowly()
        flood = [
            asyncio.create_task(generate(engine, request(constraint=constraint(t), caller_id="a"))) for t in "cdef"
        ]
        await until(lambda: script.num_compiling() == 2)
        other = asyncio.create_task(generate(engine, request(constraint=constraint("ab"), caller_id="b")))
        await until(lambda: script.num_compiling() == 3)
        results = await asyncio.gather(*flood, other, return_exceptions=True)
        assert {type(each) for each in results} == {EngineOverloaded}
        script.compile_again()
        await generate(engine, request(constraint=constraint("ab"), caller_id="a", max_tokens=4))


@pytest.mark.slow
async def test_compilation_that_finds_no_thread_is_not_the_requests_fault(start: Starter) -> None:
    """While two are compiled the next one of the same caller waits for a thread, and not for ever."""
    async with start.started(max_compile_wait_s=0.2) as (engine, script):
        script.compile_slowly()
        compiling = [asyncio.create_task(generate(engine, request(constraint=constraint(text)))) for text in ("a", "b")]
        await until(lambda: script.num_compiling() == 2)
        with pytest.raises(EngineOverloaded, match="busy") as refusal:
            await generate(engine, request(constraint=constraint("c")))
        assert refusal.value.retry_after_s == 1
        await asyncio.gather(*compiling, return_exceptions=True)
        assert script.num_compiling() == 2


@pytest.mark.parametrize("num_before", [0, 2], ids=["compiling", "waiting for a thread"])
@pytest.mark.parametrize("room_s", [0.001, 0.003, 0.05])
async def test_deadline_that_is_nearer_than_the_limit_is_what_passes(
    start_thread: Starter, room_s: float, num_before: int
) -> None:
    """The deadline is blamed, by a clock that stands still too: neither the constraint nor the threads are."""
    clock = Clock()
    async with start_thread.started(clock=clock, max_compile_wait_s=5) as (engine, script):
        script.compile_slowly()
        others = [asyncio.create_task(generate(engine, request(constraint=constraint(t)))) for t in "ab"[:num_before]]
        await until(lambda: script.num_compiling() == num_before)
        with pytest.raises(DeadlineExceeded):
            await generate(engine, request(constraint=constraint("c"), deadline=clock.now + room_s))
        script.compile_again()
        await asyncio.gather(*others, return_exceptions=True)


async def test_caller_who_leaves_while_its_constraint_waits_is_forgotten(start: Starter) -> None:
    """No thread takes up what nobody waits for."""
    async with start.started("ab") as (engine, script):
        script.compile_slowly()
        first = [asyncio.create_task(generate(engine, request(constraint=constraint(text)))) for text in ("a", "b")]
        await until(lambda: script.num_compiling() == 2)
        left = asyncio.create_task(generate(engine, request(constraint=constraint("c"))))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        await engine.check()  # which is answered after what was sent before it
        script.compile_again()
        await asyncio.gather(*first, return_exceptions=True)
        await generate(engine, request(constraint=constraint("ab"), max_tokens=2))
        assert script.num_compiling() == 3


async def test_engine_that_closes_ends_what_is_being_compiled(start: Starter) -> None:
    """Whoever waits for a constraint is told as those within are."""
    engine, script = start.generator()
    async with engine:
        script.compile_slowly()
        waiting = asyncio.create_task(generate(engine, request(constraint=constraint("a"))))
        await until(lambda: script.num_compiling() == 1)
    with pytest.raises(EngineClosed):
        await waiting
    script.compile_again()


async def test_deadline_in_the_past_is_refused_before_anything_is_compiled(start: Starter) -> None:
    """As without a constraint."""
    async with start.started() as (engine, script):
        with pytest.raises(DeadlineExceeded):
            await generate(engine, request(constraint=constraint("a"), deadline=time.monotonic()))
        assert script.num_compiling() == 0

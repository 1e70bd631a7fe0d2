"""Requests that crash the engine's process are identified and rejected; requests that ran with them are served."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.engine.client.crash_quarantine import CrashQuarantine
from service.engine.client.generator import GeneratorClient
from service.engine.link.process_link import ProcessLink
from service.engine.link.restarts import Restarts
from service.generation.errors import EngineFailed, EngineOverloaded, InvalidRequest
from service.generation.formats.constraint import Constraint, Grammar
from service.generation.requests.request import GenerationRequest
from tests.engine.fakes import request, until
from tests.engine.link.linked_engine import NEVER_ENDING, kill, linked
from tests.engine.paged_runner import sums
from tests.engine.scripted import Script
from tests.engine.started_engine import ENDLESS, generate, tokens

STUBBORN = Restarts(first_delay_s=0.01, max_delay_s=0.01, max_deaths=100)


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def crash_with(engine: GeneratorClient, link: ProcessLink, script: Script, *requests: GenerationRequest) -> None:
    """Kill the process after the first step of the requests, so that none of them has ended."""
    await until(lambda: not engine.is_restarting)
    script.stop_after(len(script.steps()) + 1)
    with pytest.raises(EngineFailed):
        await read_until_crash(engine, link, *requests)
    script.open_gate()


async def read_until_crash(engine: GeneratorClient, link: ProcessLink, *requests: GenerationRequest) -> None:
    """Kill the process at the first output, and read on."""
    async with engine.generate(*requests) as stream:
        await anext(stream)
        kill(link)
        async for _ in stream:
            pass


@pytest.mark.slow
async def test_a_request_that_crashes_the_engine_is_rejected_the_fourth_time(tmp_path: Path) -> None:
    """The rejection names the prompt, for every client and seed. Other requests are served."""
    engine, link, script = linked(tmp_path, STUBBORN, **ENDLESS)
    poison = request("poison", request_id="1", caller_id="a", **NEVER_ENDING)
    again = request("poison", request_id="2", caller_id="b", seed=5, **NEVER_ENDING)
    async with engine:
        for _ in range(3):
            await crash_with(engine, link, script, poison)
        await until(lambda: not engine.is_restarting)
        for each in (poison, again):
            with pytest.raises(InvalidRequest, match="the engine has failed 3 times while it computed this") as caught:
                await generate(engine, each)
            assert caught.value.field == "prompt"
        assert tokens(await generate(engine, request("hello"))) == sums(b"hello", 8, 0)


@pytest.mark.slow
async def test_a_request_that_ran_with_a_crashing_one_is_cleared(tmp_path: Path) -> None:
    """Two requests that were open at two crashes may not run together. One that completes leaves the quarantine."""
    engine, link, script = linked(tmp_path, STUBBORN, **ENDLESS)
    poison, innocent = request("poison", **NEVER_ENDING), request("hello", max_tokens=50)
    async with engine:
        for _ in range(2):
            await crash_with(engine, link, script, poison, request("hello", max_tokens=50, ignore_eos=True))
        await until(lambda: not engine.is_restarting)
        bystander = request("hello", max_tokens=50, ignore_eos=True)
        async with engine.generate(poison) as stream:
            await anext(stream)
            with pytest.raises(EngineOverloaded, match="has to wait for other such requests"):
                await generate(engine, bystander)
            assert await generate(engine, innocent)  # it was not open at a crash
        assert await generate(engine, bystander)
        await crash_with(engine, link, script, poison, bystander)  # the first crash of the cleared bystander
        await until(lambda: not engine.is_restarting)
        assert await generate(engine, bystander)
        with pytest.raises(InvalidRequest):
            await generate(engine, poison)


@pytest.mark.slow
async def test_a_constraint_that_crashes_the_engine_is_rejected_the_fourth_time(tmp_path: Path) -> None:
    """If the compilation crashes the process, the constraint is rejected with any prompt."""
    engine, _, _ = linked(tmp_path, STUBBORN)
    deadly = Constraint(Grammar("kills", "schema"))
    async with engine:
        for word in ("one", "two", "three"):
            with pytest.raises(EngineFailed):
                await generate(engine, request(word, constraint=deadly))
            await until(lambda: not engine.is_restarting)
        with pytest.raises(InvalidRequest, match="the engine has failed 3 times"):
            await generate(engine, request("four", constraint=deadly))


def test_the_quarantine_ends() -> None:
    """The quarantine ends ten minutes after the last crash."""
    clock = Clock()
    quarantine = CrashQuarantine(clock=clock)
    for _ in range(3):
        quarantine.record_death("work")
    with pytest.raises(InvalidRequest, match="retry in 600 s"):
        quarantine.check("work", "prompt")
    clock.now = 600
    assert not quarantine
    quarantine.check("work", "prompt")

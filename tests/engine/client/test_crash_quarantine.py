"""Requests that end their engine's process: they are identified and refused; requests that ran with them are served."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.engine.client.crash_quarantine import CrashQuarantine
from service.engine.client.generator import GeneratorClient
from service.engine.link.process_link import ProcessLink, Restarts
from service.generation.errors import EngineFailed, EngineOverloaded, InvalidRequest
from service.generation.formats.constraint import Constraint, Grammar
from service.generation.requests.request import GenerationRequest
from tests.engine.fakes import request, sums, until
from tests.engine.link.test_worker import NEVER_ENDING, kill, linked
from tests.engine.started_engine import ENDLESS, generate, tokens

STUBBORN = Restarts(first_delay_s=0.01, max_delay_s=0.01, max_deaths=100)


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def died_of(engine: GeneratorClient, link: ProcessLink, *requests: GenerationRequest) -> None:
    """The process is killed while it computes the requests."""
    await until(lambda: not engine.is_restarting)
    with pytest.raises(EngineFailed):
        await read_to_death(engine, link, *requests)


async def read_to_death(engine: GeneratorClient, link: ProcessLink, *requests: GenerationRequest) -> None:
    """Kill the process at the first output, and read on."""
    async with engine.generate(*requests) as stream:
        await anext(stream)
        kill(link)
        async for _ in stream:
            pass


@pytest.mark.slow
async def test_a_request_that_kills_is_refused_at_the_fourth_time(tmp_path: Path) -> None:
    """With an error that names its prompt, whoever asks and with whatever seed; others are served."""
    engine, link, _ = linked(tmp_path, STUBBORN, **ENDLESS)
    poison = request("poison", request_id="1", caller_id="a", **NEVER_ENDING)
    again = request("poison", request_id="2", caller_id="b", seed=5, **NEVER_ENDING)
    async with engine:
        for _ in range(3):
            await died_of(engine, link, poison)
        await until(lambda: not engine.is_restarting)
        for each in (poison, again):
            with pytest.raises(InvalidRequest, match="the engine has failed 3 times while it computed this") as refusal:
                await generate(engine, each)
            assert refusal.value.field == "prompt"
        assert tokens(await generate(engine, request("hello"))) == sums(b"hello", 8, 0)


@pytest.mark.slow
async def test_who_ran_beside_it_is_cleared(tmp_path: Path) -> None:
    """Two that were open at two deaths must run one after the other; the one that ends well is free again."""
    engine, link, _ = linked(tmp_path, STUBBORN, **ENDLESS)
    poison, innocent = request("poison", **NEVER_ENDING), request("hello", max_tokens=50)
    async with engine:
        for _ in range(2):
            await died_of(engine, link, poison, request("hello", max_tokens=50, ignore_eos=True))
        await until(lambda: not engine.is_restarting)
        bystander = request("hello", max_tokens=50, ignore_eos=True)
        async with engine.generate(poison) as stream:
            await anext(stream)
            with pytest.raises(EngineOverloaded, match="has to wait for other such requests"):
                await generate(engine, bystander)
            assert await generate(engine, innocent)  # which was not open then
        assert await generate(engine, bystander)
        await died_of(engine, link, poison, bystander)  # its first one
        await until(lambda: not engine.is_restarting)
        assert await generate(engine, bystander)
        with pytest.raises(InvalidRequest):
            await generate(engine, poison)


@pytest.mark.slow
async def test_a_constraint_that_kills_is_refused_at_the_fourth_time(tmp_path: Path) -> None:
    """Its compiling is what the process died of, whatever the prompt."""
    engine, _, _ = linked(tmp_path, STUBBORN)
    deadly = Constraint(Grammar("kills", "schema"))
    async with engine:
        for word in ("one", "two", "three"):
            with pytest.raises(EngineFailed):
                await generate(engine, request(word, constraint=deadly))
            await until(lambda: not engine.is_restarting)
        with pytest.raises(InvalidRequest, match="the engine has failed 3 times"):
            await generate(engine, request("four", constraint=deadly))


def test_suspicion_ends() -> None:
    """Ten minutes after the last death."""
    clock = Clock()
    quarantine = CrashQuarantine(clock=clock)
    for _ in range(3):
        quarantine.record_death("work")
    with pytest.raises(InvalidRequest, match="retry in 600 s"):
        quarantine.check("work", "prompt")
    clock.now = 600
    assert not quarantine
    quarantine.check("work", "prompt")

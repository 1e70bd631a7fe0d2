"""A worker that has died is restarted, unless it dies too often; its own streams end with an error."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from service.engine.client.embedder import EmbedderClient
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.process_link import ProcessLink
from service.engine.link.restarts import Restarts
from service.generation.errors import EngineFailed, EngineRestarting, ModelLoadError
from service.generation.formats.constraint import Constraint, Grammar
from tests.engine.byte_tokenizer import ByteTokenizer
from tests.engine.encoder_fakes import embedding
from tests.engine.fakes import config_of, read, request, until
from tests.engine.link.linked_engine import NEVER_ENDING, kill, linked
from tests.engine.paged_runner import sums
from tests.engine.scripted import Script
from tests.engine.started_engine import ENDLESS, QUICK, generate, tokens


@pytest.mark.slow
async def test_killed_worker_ends_its_own_streams_and_is_restarted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream gets EngineFailed, new requests get EngineRestarting, and then requests are served.

    Another engine is not affected.
    """
    slow = Restarts(first_delay_s=0.3)
    engine, link, _ = linked(tmp_path / "one", slow, **ENDLESS)
    other, other_link, _ = linked(tmp_path / "other", **ENDLESS)
    async with engine, other:
        before = other_link.pid
        async with other.generate(request("other", **NEVER_ENDING)) as untouched:
            async with engine.generate(request("hello", **NEVER_ENDING)) as stream:
                await anext(stream)
                kill(link)
                with pytest.raises(EngineFailed) as failure:
                    await read(stream)
            assert "SIGKILL" in str(failure.value.__cause__)
            assert engine.is_restarting
            assert engine.heartbeat_age_s == 0
            with pytest.raises(EngineRestarting) as caught:
                await generate(engine, request())
            assert 1 <= caught.value.retry_after_s <= 30
            num_steps = engine.stats().num_steps
            assert num_steps > 0
            assert engine.stats().num_running == 0
            await until(lambda: not engine.is_restarting)
            assert tokens(await generate(engine, request("hello"))) == sums(b"hello", 8, 0)
            assert engine.stats().num_steps > num_steps  # counters continue after a restart
            await engine.check()
            assert len((await anext(untouched)).token_ids) > 0
        assert not other.is_restarting
        assert other_link.pid == before
        assert not engine.failed.done()
    assert "SIGKILL" in caplog.text


@pytest.mark.slow
async def test_killed_encoder_is_restarted(tmp_path: Path) -> None:
    """An encoder's process is restarted like a generator's."""
    script = Script(tmp_path / "encoder")
    engine_spec = EngineSpec("tests.engine.scripted:encoder", {"folder": script.folder, "max_batch_tokens": 64})
    link = ProcessLink(engine_spec, restarts=QUICK)
    link.launch()
    async with EmbedderClient(link, config_of(), vocab_size=ByteTokenizer.vocab_size) as engine:
        with script.paused():
            running = asyncio.create_task(engine.embed(embedding(3)))
            await until(script.is_at_gate)
            kill(link)
            with pytest.raises(EngineFailed):
                await running
        await until(lambda: not engine.is_restarting)
        assert len((await engine.embed(embedding(3, 4))).vectors) == 2


@pytest.mark.slow
async def test_worker_that_is_killed_while_it_compiles_fails_the_request(tmp_path: Path) -> None:
    """If a compilation crashes the process, its request ends with EngineFailed, and the next request is served."""
    engine, _, _ = linked(tmp_path)
    async with engine:
        with pytest.raises(EngineFailed):
            await generate(engine, request(constraint=Constraint(Grammar("kills", "schema"))))
        await until(lambda: not engine.is_restarting)
        assert tokens(await generate(engine, request("hello"))) == sums(b"hello", 8, 0)


@pytest.mark.slow
async def test_step_that_fails_restarts_the_worker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An exception of a step counts as a death. Its text is logged by the parent and is the cause of the error."""
    engine, _, script = linked(tmp_path)
    async with engine:
        script.fail("out of memory")
        with pytest.raises(EngineFailed) as failure:
            await generate(engine, request())
        assert "MemoryError: out of memory" in str(failure.value.__cause__)
        script.stop_failing()
        await until(lambda: not engine.is_restarting)
        assert await generate(engine, request())
    assert "the engine has failed" in caplog.text


@pytest.mark.slow
async def test_worker_that_dies_too_often_is_not_restarted(tmp_path: Path) -> None:
    """After the maximum number of consecutive deaths, `failed` has the reason, and all requests are rejected."""
    engine, link, _ = linked(tmp_path, Restarts(first_delay_s=0.01, max_deaths=3))
    async with engine:
        for num_deaths in range(1, 4):
            await until(lambda: not engine.is_restarting)
            kill(link)
            await until(lambda: engine.is_restarting or engine.failed.done())
            assert engine.failed.done() == (num_deaths == 3)
        assert "SIGKILL" in str(await engine.failed)
        with pytest.raises(EngineFailed):
            await generate(engine, request())


@pytest.mark.slow
async def test_load_that_fails_counts_as_a_death(tmp_path: Path) -> None:
    """The first load's error is raised to the caller. A later one is retried until the maximum number of deaths."""
    engine, link, script = linked(tmp_path, Restarts(first_delay_s=0.01, max_deaths=3))
    async with engine:
        script.fail_to_load("the disk is gone")
        kill(link)
        assert "the disk is gone" in str(await engine.failed)
    failing = ProcessLink(EngineSpec("tests.engine.scripted:encoder", {"folder": tmp_path, "max_batch_tokens": 64}))
    with pytest.raises(ModelLoadError, match="the disk is gone"):
        failing.launch()
    assert failing.pid is None


def test_delays_double_up_to_a_limit() -> None:
    """The restart delay doubles from 0.5 to 30 seconds."""
    assert [Restarts().delay_s(num) for num in (1, 2, 3, 6, 7, 100)] == [0.5, 1, 2, 16, 30, 30]


async def test_engine_closes_while_its_worker_is_down(tmp_path: Path) -> None:
    """Neither the wait for a restart nor a load delays the close."""
    engine, link, _ = linked(tmp_path, Restarts(first_delay_s=1000, max_delay_s=1000))
    async with engine:
        kill(link)
        await until(lambda: engine.is_restarting)
    assert link.pid is None

"""Engines in worker processes: the effects of a process's death, and the ways in which a process ends."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from service.engine.client.embedder import EmbedderClient
from service.engine.client.generator import GeneratorClient
from service.engine.interface.messages import Abort
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.process_link import ProcessLink
from service.engine.link.restarts import Restarts
from service.generation.errors import (
    EngineFailed,
    EngineRestarting,
    InvalidRequest,
    ModelLoadError,
    SequenceError,
)
from service.generation.formats.constraint import Constraint, Grammar
from service.generation.requests.request import GenerationRequest
from tests.engine.encoder_fakes import embedding
from tests.engine.fakes import ByteTokenizer, config_of, read, request, sums, until
from tests.engine.scripted import Script
from tests.engine.started_engine import ENDLESS, QUICK, Starter, generate, tokens

NEVER_ENDING: dict[str, Any] = {"max_tokens": None, "ignore_eos": True}


def is_alive(pid: int) -> bool:
    """Return whether a process of that id exists and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def linked(folder: Path, restarts: Restarts = QUICK, **sizes: Any) -> tuple[GeneratorClient, ProcessLink, Script]:
    """Return an engine in a process, with its link and its script."""
    script = Script(folder)
    link = ProcessLink(
        EngineSpec("tests.engine.scripted:generator", {"folder": folder, "texts": (), "ends": True, "sizes": sizes}),
        restarts=restarts,
    )
    link.launch()
    return GeneratorClient(link, config_of(**sizes), vocab_size=ByteTokenizer.vocab_size), link, script


def kill(link: ProcessLink) -> None:
    assert link.pid is not None
    os.kill(link.pid, signal.SIGKILL)


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


async def test_worker_ignores_signals_to_the_process_group(tmp_path: Path) -> None:
    """The parent handles Ctrl-C and a supervisor's stop, and the worker continues to run."""
    engine, link, _ = linked(tmp_path)
    async with engine:
        assert link.pid is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(link.pid, number)
        assert tokens(await generate(engine, request("hello"))) == sums(b"hello", 8, 0)
        assert not engine.is_restarting


class Unpicklable:
    """An object that cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("not picklable")


def explode() -> None:
    raise RuntimeError("a bad pickle")


class Unreadable:
    """An object that can be pickled but not unpickled."""

    def __reduce__(self) -> Any:
        return explode, ()


@pytest.mark.slow
async def test_unreadable_command_ends_only_its_own_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A command that cannot be pickled, cannot be unpickled, or is of an unknown kind does not end the worker."""
    engine, link, _ = linked(tmp_path)
    async with engine:
        pid = link.pid
        unlike: Any = request()
        for salt in (Unreadable(), Unpicklable()):
            poisoned = GenerationRequest("r", [1, 2], cache_salt=salt)  # type: ignore[arg-type]
            with pytest.raises((SequenceError, TypeError)):
                await generate(engine, poisoned)
        with pytest.raises(SequenceError):
            await generate(engine, GenerationRequest("r", [1, 2], stopping=unlike.stopping, logprobs=Unreadable()))  # type: ignore[arg-type]
        link.send(Abort(10**6))
        link.send("what is this?")  # type: ignore[arg-type]
        assert tokens(await generate(engine, request("hello"))) == sums(b"hello", 8, 0)
        assert link.pid == pid
    assert "a bad pickle" in caplog.text


@pytest.mark.slow
async def test_large_commands_are_sent_in_pieces(start_process: Starter) -> None:
    """Several requests that exceed the socket's buffer arrive, together with small ones."""
    async with start_process.started(num_blocks=100_000, max_model_len=200_000, max_queue_tokens=10**7) as (engine, _):
        large = [asyncio.create_task(generate(engine, request([index] * 100_000, max_tokens=1))) for index in range(5)]
        await asyncio.sleep(0)
        assert tokens(await generate(engine, request("hello"))) == sums(b"hello", 8, 0)
        for index, task in enumerate(large):
            assert tokens(await task) == sums([index] * 100_000, 1, 0)


@pytest.mark.slow
async def test_logs_of_a_worker_reach_the_parents_handlers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A worker's log records of the parent's level and above are handled by the parent."""
    with caplog.at_level(logging.ERROR):
        engine, _, script = linked(tmp_path)
        async with engine:
            script.fail("no memory")
            with pytest.raises(EngineFailed):
                await generate(engine, request())
            script.stop_failing()
            await until(lambda: not engine.is_restarting)
    record = next(each for each in caplog.records if each.name == "service.engine.link.worker")
    assert record.process != os.getpid()
    assert record.getMessage().startswith("the engine has failed\nTraceback")
    assert "MemoryError: no memory" in record.getMessage()


PARENT = """
import signal, sys
from pathlib import Path
from service.engine.link.process_link import ProcessLink
from service.engine.link.engine_spec import EngineSpec

folder = Path(sys.argv[1])
arguments = {"folder": folder, "texts": (), "ends": True, "sizes": {}}
link = ProcessLink(EngineSpec("tests.engine.scripted:generator", arguments))
link.launch()
print(link.pid, flush=True)
signal.pause()
"""


@pytest.mark.slow
def test_worker_ends_with_its_parent(tmp_path: Path) -> None:
    """A killed parent leaves no orphan process."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
        while is_alive(pid):
            time.sleep(0.01)


@pytest.mark.slow
async def test_closed_engine_leaves_no_process(tmp_path: Path) -> None:
    """No process is left after `close`, whether the engine was started or not."""
    engine, link, _ = linked(tmp_path)
    pid = link.pid
    assert pid is not None
    await engine.close()
    assert not is_alive(pid)
    engine, link, _ = linked(tmp_path)
    pid = link.pid
    assert pid is not None
    async with engine:
        await generate(engine, request())
    assert not is_alive(pid)


def test_instants_are_the_same_in_all_processes() -> None:
    """The monotonic clock is shared by processes, so that deadlines and timings are valid in all of them."""
    began = time.monotonic()
    theirs = subprocess.run(
        [sys.executable, "-c", "import time; print(time.monotonic())"], check=True, capture_output=True
    ).stdout
    assert began <= float(theirs) <= time.monotonic()


@pytest.mark.parametrize("error", [InvalidRequest("n", "too many"), EngineRestarting("away", 3.0), SequenceError("no")])
def test_errors_keep_their_values_between_processes(error: Exception) -> None:
    """A pickled error has the same type, message and fields after unpickling."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(again), vars(again), str(again)) == (type(error), vars(error), str(error))

"""Engines in worker processes: what crosses between the processes, and the ways in which a worker ends."""

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

from service.engine.interface.messages import Abort
from service.generation.errors import EngineFailed, EngineRestarting, InvalidRequest, SequenceError
from service.generation.requests.request import GenerationRequest
from tests.engine.fakes import request, until
from tests.engine.link.linked_engine import is_alive, linked
from tests.engine.paged_runner import sums
from tests.engine.started_engine import Starter, generate, tokens


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

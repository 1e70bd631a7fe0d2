"""Loads in worker processes: their progress, and what is left when they are cancelled."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from process.lifetime.abandoned import run_abandonable
from service.engine.interface.running_load import LoadCancelled, LoadedBytes, RunningLoad
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.link_state import LinkState
from service.engine.link.process_link import ProcessLink
from tests.engine.fakes import until
from tests.engine.link.linked_engine import is_alive


async def test_cancelled_load_ends_its_process(tmp_path: Path) -> None:
    """The progress of the process is known before, and the link may be launched again."""
    progress: list[LoadedBytes] = []
    load = RunningLoad(progress.append)
    link = ProcessLink(EngineSpec("tests.engine.link.slow_core:load", {"folder": tmp_path}))
    with load.running():
        launching = asyncio.create_task(run_abandonable("load", link.launch))
    await until(lambda: (tmp_path / "began").exists() and bool(progress))
    pid = link.pid
    assert pid is not None
    assert progress == [LoadedBytes(3, 10)]
    assert load.cancel()
    with pytest.raises(LoadCancelled):
        await launching
    assert (link.pid, link.state, is_alive(pid)) == (None, LinkState.NEW, False)


def test_cancelled_load_does_not_begin() -> None:
    load = RunningLoad()
    assert load.cancel()
    with load.running(), pytest.raises(LoadCancelled):
        ProcessLink(EngineSpec("tests.engine.link.slow_core:load", {"folder": Path("nowhere")})).launch()


def test_load_on_a_thread_ends_with_its_next_progress() -> None:
    """A load without a process of its own is not interrupted, but its next report raises the error."""
    load = RunningLoad()
    load.report(LoadedBytes(1, 10))
    load.cancel()
    with pytest.raises(LoadCancelled):
        load.report(LoadedBytes(2, 10))


def test_committed_load_is_not_cancelled() -> None:
    load, interrupts = RunningLoad(), list[str]()
    with load.interruptible(partial(interrupts.append, "interrupt")):
        load.commit()
        assert not load.cancel()
    assert not interrupts
    load.report(LoadedBytes(1, 10))


def test_only_an_error_of_a_cancelled_load_is_replaced() -> None:
    load = RunningLoad()
    with pytest.raises(ValueError, match="broken"), load.interruptible(lambda: None):
        raise ValueError("broken")

    def end_by_cancellation() -> NoReturn:
        thread = threading.Thread(target=load.cancel)
        thread.start()
        thread.join()
        raise ValueError("killed")

    with pytest.raises(LoadCancelled), load.interruptible(lambda: None):
        end_by_cancellation()

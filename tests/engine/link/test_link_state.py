"""The states of the link to an engine's process, in every order of events."""

from __future__ import annotations

import asyncio
import errno
import gc
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from service.engine.interface.messages import Report
from service.engine.link import link_state
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.link_state import NEXT_STATES, LinkState
from service.engine.link.process_link import ProcessLink
from service.engine.link.restarts import Restarts
from service.generation.errors import ModelChanged, ModelLoadError
from tests.engine.fakes import until
from tests.engine.scripted import Script

RESTING = {LinkState.RUNNING, LinkState.STOPPED, LinkState.DEAD}


class Recorder:
    """A receiver that records deaths and restarts."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.last_reason: BaseException | None = None

    def on_report(self, report: Report) -> None:
        """Ignore the report."""

    def on_death(self, reason: BaseException, restart_in_s: float | None) -> None:
        self.events.append("dead" if restart_in_s is None else "died")
        self.last_reason = reason

    def on_restart(self) -> None:
        self.events.append("restarted")


def launched(folder: Path) -> tuple[ProcessLink, Script]:
    """Return a link whose process has loaded, and the script of its core."""
    script = Script(folder)
    arguments = {"folder": folder, "texts": (), "ends": True, "sizes": {}}
    restarts = Restarts(first_delay_s=0.01, max_delay_s=0.02, max_deaths=4)
    link = ProcessLink(EngineSpec("tests.engine.scripted:generator", arguments), restarts=restarts)
    link.launch()
    return link, script


def test_the_documented_table_is_the_one_in_use() -> None:
    """Each row of the module's table has the states that may follow."""
    rows = re.findall(r"^\| ([A-Z]+) \|.*\| (.*) \|$", link_state.__doc__ or "", re.MULTILINE)
    found = {LinkState[name]: {LinkState[word] for word in re.findall(r"\b[A-Z]{3,}\b", left)} for name, left in rows}
    assert found == {state: set(following) for state, following in NEXT_STATES.items()}


async def shuffled(dice: Random, folder: Path) -> None:
    """Let events reach a link in a random order, and stop it."""
    link, script = launched(folder)
    link.start(Recorder())
    for _ in range(12):
        match dice.choice(["kill", "kill", "stop", "relaunch", "break", "wait"]):
            case "kill":
                link.kill()
            case "stop":
                stops = [asyncio.create_task(link.stop()) for _ in range(dice.choice([1, 2]))]
                await asyncio.gather(*stops)
                assert link.state in {LinkState.STOPPED, LinkState.DEAD}
                assert link.pid is None
            case "relaunch" if link.state is LinkState.STOPPED:
                waking = asyncio.create_task(link.relaunch())
                await asyncio.sleep(dice.choice([0, 0.2]))
                if dice.random() < 0.5:
                    await link.stop()
                await asyncio.gather(waking, return_exceptions=True)
            case "break":
                script.fail_to_load("the disk is gone")
                link.kill()
                await asyncio.sleep(dice.choice([0, 0.1]))
                script.load_again()
            case "wait":
                await until(lambda: link.state in RESTING)
    await link.stop()
    assert link.state in {LinkState.STOPPED, LinkState.DEAD}
    assert link.pid is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_any_order_of_events_follows_the_table(seed: int, tmp_path: Path) -> None:
    """Kills, stops, relaunches and failing loads at any moment end in a state of rest, without a process if stopped."""
    lost: list[object] = []  # exceptions of tasks that nobody awaits
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    await shuffled(Random(seed), tmp_path)
    gc.collect()
    assert not lost


@pytest.mark.slow
async def test_a_relaunch_that_is_stopped_fails(tmp_path: Path) -> None:
    """A stop during a relaunch ends the process that loads, and the relaunch raises."""
    link, _ = launched(tmp_path)
    link.start(Recorder())
    await link.stop()
    waking = asyncio.create_task(link.relaunch())
    await until(lambda: link.pid is not None)
    await link.stop()
    with pytest.raises(ModelLoadError):
        await waking
    assert link.state is LinkState.STOPPED
    await link.relaunch()
    await until(lambda: link.state is LinkState.RUNNING)
    await link.stop()


@pytest.mark.slow
async def test_changed_files_end_the_link(tmp_path: Path) -> None:
    """A restart that would load something else than the first launch reports ModelChanged, and no process is left."""
    link, script = launched(tmp_path)
    receiver = Recorder()
    link.start(receiver)
    script.change("another model")
    link.kill()
    await until(lambda: link.state is LinkState.DEAD)
    assert receiver.events == ["died", "dead"]
    assert isinstance(receiver.last_reason, ModelChanged)
    assert link.pid is None
    await link.stop()


@contextmanager
def unstartable() -> Iterator[None]:
    """Let no process be started."""

    def fail(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", fail)
        yield


@pytest.mark.slow
async def test_a_restart_is_tried_again_if_no_process_can_be_started(tmp_path: Path) -> None:
    """A limit of processes is a reason like others: it counts as a death, and the next attempt may succeed."""
    link, _ = launched(tmp_path)
    receiver = Recorder()
    link.start(receiver)
    with unstartable():
        link.kill()
        await until(lambda: len(receiver.events) == 2)
    assert "can't be started: [Errno 11]" in str(receiver.last_reason)
    await until(lambda: link.state is LinkState.RUNNING)
    assert set(receiver.events[:-1]) == {"died"}
    assert receiver.events[-1] == "restarted"
    await link.stop()


@pytest.mark.slow
async def test_a_relaunch_can_be_repeated_if_no_process_can_be_started(tmp_path: Path) -> None:
    link, _ = launched(tmp_path)
    link.start(Recorder())
    await link.stop()
    with unstartable():
        for _ in range(2):
            with pytest.raises(ModelLoadError, match="can't be started"):
                await link.relaunch()
    await link.relaunch()
    await until(lambda: link.state is LinkState.RUNNING)
    await link.stop()

"""The processes of a run: logs, restarts, stops, and their end with the runner."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.processes.children import Children, DiedTooOften, Restarts
from tests.e2e.stack import suspend
from tests.waiting import GUARD_S

ROOT = Path(__file__).resolve().parents[2]
SLEEPER = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]
AT_ONCE = Restarts(first_delay_s=0.01, max_deaths=3)


class Output(list[str]):
    """The printed lines of a run."""

    async def until(self, text: str, count: int = 1) -> None:
        """Return when `count` lines contain the text."""
        while sum(text in line for line in self) < count:  # noqa: ASYNC110 a list has no event
            await asyncio.sleep(0.01)


@pytest.fixture
def output() -> Output:
    return Output()


def children_of(output: Output, restarts: Restarts = AT_ONCE) -> Children:
    return Children(ROOT, output.append, restarts=restarts)


async def test_a_very_long_line_does_not_block_a_child(output: Output) -> None:
    """A child that writes a line above the limit continues, and so does its log."""
    children = children_of(output)
    children.start("child", [sys.executable, "-c", "print('a' * 5_000_000); print('after')"])
    assert await children.first_exit() == ("child", 0, "after")
    await children.stop([signal.SIGTERM], GUARD_S, GUARD_S)
    assert output[-1] == "child   | after"


@pytest.mark.slow
async def test_a_dead_process_is_restarted_and_the_others_continue(output: Output) -> None:
    """Each death is reported with the delay, which doubles, up to the allowed number of deaths."""
    children = children_of(output)
    children.start("steady", SLEEPER)
    children.start("weak", [sys.executable, "-c", "print('up'); raise SystemExit(3)"])
    with pytest.raises(
        DiedTooOften, match=r"^weak has exited 3 times in \d+ s, the last time with code 3, and is not "
    ):
        await children.supervise()
    await children.stop([signal.SIGTERM], GUARD_S, GUARD_S)
    assert [line for line in output if line.startswith("weak exited")] == [
        "weak exited with code 3; it will be restarted in 0.01 s",
        "weak exited with code 3; it will be restarted in 0.02 s",
    ]
    assert output.count("weak    | up") == 3
    assert output.count("steady  | up") == 1


@pytest.mark.slow
async def test_deaths_before_the_window_do_not_count(output: Output) -> None:
    """A process that dies rarely is always restarted."""
    children = children_of(output, Restarts(first_delay_s=0.01, max_deaths=2, window_s=0.001))
    children.start("weak", [sys.executable, "-c", "print('up')"])
    supervising = asyncio.create_task(children.supervise())
    await output.until("weak    | up", 5)
    supervising.cancel()
    await children.stop([signal.SIGTERM], GUARD_S, GUARD_S)


async def test_stop_signals_processes_in_reverse_order(output: Output) -> None:
    """The last started process gets the first signal, and the others get the last signal."""
    children = children_of(output)
    script = (
        "import signal, sys\n"
        "def end(number, frame): print(f'{signal.Signals(number).name}', flush=True); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); signal.signal(signal.SIGINT, end); print('up', flush=True)\n"
        "while True: signal.pause()\n"
    )
    for name in ("first", "second", "third"):
        children.start(name, [sys.executable, "-c", script])
    await output.until("up", 3)
    await children.stop([signal.SIGTERM, signal.SIGINT], GUARD_S, GUARD_S)
    assert output[-3:] == ["third   | SIGTERM", "second  | SIGINT", "first   | SIGINT"]


async def test_a_process_that_does_not_stop_is_killed(output: Output) -> None:
    """A child stopped by SIGSTOP ignores SIGTERM, and is killed with its descendants."""
    children = children_of(output)
    script = f"import signal, subprocess; subprocess.Popen({SLEEPER!r}); signal.pause()"
    children.start("deaf", [sys.executable, "-c", script])
    await output.until("up")
    (pid,) = session_pids(os.getpid())
    suspend(pid)
    await children.stop([signal.SIGTERM], 0.1, 0.1)
    assert not session_pids(os.getpid())
    await until_gone(lambda: any(session_of(each) == pid for each in all_pids()))


async def test_descendants_of_a_dead_child_are_killed(output: Output) -> None:
    """Descendants are killed before the restart, because they may hold ports that it needs."""
    children = children_of(output)
    script = f"import subprocess; child = subprocess.Popen({SLEEPER!r}); print('pid', child.pid)"
    children.start("parent", [sys.executable, "-c", script])
    name, code, last_line = await children.first_exit()
    assert (name, code) == ("parent", 0)
    assert last_line in {"up", *(line.partition("| ")[2] for line in output)}
    await children.stop([signal.SIGTERM], GUARD_S, GUARD_S)
    (line,) = (line for line in output if "pid" in line)
    await until_gone(lambda: int(line.rsplit(maxsplit=1)[1]) in set(all_pids()))


def test_no_child_outlives_a_killed_parent(tmp_path: Path) -> None:
    """SIGKILL of the parent ends a child, even one that is stopped."""
    script = (
        "import asyncio, pathlib, sys; from runner.processes.children import Children\n"
        "async def run():\n"
        "    children = Children(pathlib.Path('.'), lambda line: print(line, flush=True))\n"
        f"    children.start('child', {SLEEPER!r})\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(run())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"child   | up\n"
        (pid,) = session_pids(parent.pid)
        suspend(pid)
        parent.kill()
        parent.wait()
        while pid in set(all_pids()):  # the test's own timeout ends the loop
            time.sleep(0.01)


async def until_gone(is_there: Callable[[], bool]) -> None:
    """Return when killed processes have ended, which is not immediate."""
    while is_there():  # noqa: ASYNC110 the test's own timeout ends the loop
        await asyncio.sleep(0.01)


def all_pids() -> list[int]:
    """Return all processes that are not zombies."""
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and state_of(int(each.name))]


def state_of(pid: int) -> str:
    """Return the state letter in /proc, or an empty string for a zombie or no process."""
    fields = stat_of(pid)
    return "" if not fields or fields[0] == "Z" else fields[0]


def session_of(pid: int) -> int:
    fields = stat_of(pid)
    return int(fields[3]) if fields else 0


def session_pids(parent: int) -> list[int]:
    """Return the living children of a process that lead their own session."""
    return [
        pid for pid in all_pids() if (fields := stat_of(pid)) and int(fields[1]) == parent and int(fields[3]) == pid
    ]


def stat_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: state, parent, group, session and so on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []

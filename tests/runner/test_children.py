"""The processes of a run: their logs, their restarts, their stop, and that none outlives it."""

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

ROOT = Path(__file__).resolve().parents[2]
SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
AT_ONCE = Restarts(first_delay_s=0.01, max_deaths=3)


class Said(list[str]):
    """The lines of a run."""

    async def until(self, text: str, count: int = 1) -> None:
        """Return when so many lines have the text."""
        while sum(text in line for line in self) < count:  # noqa: ASYNC110 a list has no event
            await asyncio.sleep(0.01)


@pytest.fixture
def said() -> Said:
    return Said()


def children_of(said: Said, restarts: Restarts = AT_ONCE) -> Children:
    return Children(ROOT, said.append, restarts=restarts)


async def test_a_line_without_end_stops_no_child(said: Said) -> None:
    """A child that writes more than a line may have goes on, and so does its log."""
    children = children_of(said)
    children.start("child", [sys.executable, "-c", "print('a' * 5_000_000); print('after')"])
    assert await children.first_exit() == ("child", 0, "after")
    await children.stop([signal.SIGTERM], 10)
    assert said[-1] == "child   | after"


@pytest.mark.slow
async def test_one_that_dies_is_started_again_and_the_others_go_on(said: Said) -> None:
    """Each death is told with the delay, which doubles; the third of three in the window is the last."""
    children = children_of(said)
    children.start("steady", SLEEPER)
    children.start("weak", [sys.executable, "-c", "print('up'); raise SystemExit(3)"])
    with pytest.raises(
        DiedTooOften, match=r"^weak has exited 3 times in \d+ s, the last time with code 3, and is not "
    ):
        await children.keep()
    await children.stop([signal.SIGTERM], 10)
    assert [line for line in said if line.startswith("run: ")] == [
        "run: weak exited with code 3; it will be restarted in 0.01 s",
        "run: weak exited with code 3; it will be restarted in 0.02 s",
    ]
    assert said.count("weak    | up") == 3
    assert said.count("steady  | up") == 1


@pytest.mark.slow
async def test_deaths_are_forgotten_after_the_window(said: Said) -> None:
    """One that dies now and then is started again for ever."""
    children = children_of(said, Restarts(first_delay_s=0.01, max_deaths=2, window_s=0.001))
    children.start("weak", [sys.executable, "-c", "print('up')"])
    keeping = asyncio.create_task(children.keep())
    await said.until("weak    | up", 5)
    keeping.cancel()
    await children.stop([signal.SIGTERM], 10)


async def test_a_stop_is_in_reverse_order_and_by_the_signals_given(said: Said) -> None:
    """The last started gets the first signal; the rest get the last one."""
    children = children_of(said)
    script = (
        "import signal, sys\n"
        "def end(number, frame): print(f'{signal.Signals(number).name}', flush=True); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); signal.signal(signal.SIGINT, end); print('up', flush=True)\n"
        "while True: signal.pause()\n"
    )
    for name in ("first", "second", "third"):
        children.start(name, [sys.executable, "-c", script])
    await said.until("up", 3)
    await children.stop([signal.SIGTERM, signal.SIGINT], 10)
    assert said[-3:] == ["third   | SIGTERM", "second  | SIGINT", "first   | SIGINT"]


async def test_what_does_not_stop_is_killed(said: Said) -> None:
    """A child that is stopped by SIGSTOP takes no SIGTERM; it ends all the same, with what it has started."""
    children = children_of(said)
    script = f"import subprocess, time; subprocess.Popen({SLEEPER!r}); time.sleep(60)"
    children.start("deaf", [sys.executable, "-c", script])
    await said.until("up")
    (pid,) = session_pids(os.getpid())
    os.kill(pid, signal.SIGSTOP)
    await children.stop([signal.SIGTERM], 0.1)
    assert not session_pids(os.getpid())
    await until_gone(lambda: any(session_of(each) == pid for each in all_pids()))


async def test_what_a_dead_child_leaves_behind_is_killed(said: Said) -> None:
    """Before it is started again: a process of its session might hold what the new one needs."""
    children = children_of(said)
    script = f"import subprocess; child = subprocess.Popen({SLEEPER!r}); print('pid', child.pid)"
    children.start("parent", [sys.executable, "-c", script])
    name, code, last_line = await children.first_exit()
    assert (name, code) == ("parent", 0)
    assert last_line in {"up", *(line.partition("| ")[2] for line in said)}
    await children.stop([signal.SIGTERM], 10)
    (line,) = (line for line in said if "pid" in line)
    await until_gone(lambda: int(line.rsplit(maxsplit=1)[1]) in set(all_pids()))


def test_no_child_outlives_a_killed_parent(tmp_path: Path) -> None:
    """Kill -9 of who started them, even when a child is stopped and could take no other signal."""
    script = (
        "import asyncio, pathlib, sys; from runner.processes.children import Children\n"
        "async def run():\n"
        "    children = Children(pathlib.Path('.'), lambda line: print(line, flush=True))\n"
        f"    children.start('child', {SLEEPER!r})\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(run())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"child   | up\n"
        (pid,) = session_pids(parent.pid)
        os.kill(pid, signal.SIGSTOP)
        parent.kill()
        parent.wait()
        while pid in set(all_pids()):  # the test's own time limit ends a wait in vain
            time.sleep(0.01)


async def until_gone(is_there: Callable[[], bool]) -> None:
    """Return when what was killed has ended, which takes the kernel a moment."""
    while is_there():  # noqa: ASYNC110 the test's own time limit ends a wait in vain
        await asyncio.sleep(0.01)


def all_pids() -> list[int]:
    """All processes that are no zombies."""
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and state_of(int(each.name))]


def state_of(pid: int) -> str:
    """Its letter in /proc; nothing for a zombie or none."""
    fields = stat_of(pid)
    return "" if not fields or fields[0] == "Z" else fields[0]


def session_of(pid: int) -> int:
    fields = stat_of(pid)
    return int(fields[3]) if fields else 0


def session_pids(parent: int) -> list[int]:
    """The living children of a process that lead sessions of their own."""
    return [
        pid for pid in all_pids() if (fields := stat_of(pid)) and int(fields[1]) == parent and int(fields[3]) == pid
    ]


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, group, session and so on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []

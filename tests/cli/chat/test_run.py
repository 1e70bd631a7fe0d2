"""`sluice run`: one command that serves a model, answers, and stops the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.chat.test_chat import ANSWER, GREEDY, QUESTION
from tests.cli.terminal import Terminal
from tests.e2e.stack import ROOT
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.long


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in text.split()]


def test_a_piped_question_is_answered_and_the_server_stops() -> None:
    """Only the answer is on standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "cli", "run", "demo/model", *GREEDY],
        cwd=ROOT, input=QUESTION, capture_output=True, text=True, timeout=GUARD_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n"), done.stderr


def test_a_conversation_ends_with_its_server() -> None:
    """Ctrl-D ends both. Keys are typed after the prompt has appeared: before, the terminal does not pass them on."""
    with Terminal("run", "demo/model", *GREEDY, env={}) as terminal:
        terminal.until("/help lists commands, Ctrl-D exits")
        (server,) = children_of(terminal.process.pid)
        terminal.until("> ")
        terminal.type(f"{QUESTION}\n")
        terminal.until(ANSWER)
        terminal.until("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        wait_until(lambda: not Path(f"/proc/{server}").exists())


def test_a_model_that_does_not_exist_ends_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "run", "/nowhere"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=GUARD_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "/nowhere has no config.json" in done.stderr

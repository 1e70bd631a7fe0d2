"""`sluice run`: one command that serves a model, answers, and stops the server."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.chat.test_chat import ANSWER, GREEDY, QUESTION
from tests.e2e.stack import ROOT
from tests.waiting import GUARD_S

pytestmark = pytest.mark.long


def test_a_piped_question_is_answered_and_the_server_stops() -> None:
    """Only the answer is on standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "cli", "run", "demo/model", *GREEDY],
        cwd=ROOT, input=QUESTION, capture_output=True, text=True, timeout=GUARD_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n"), done.stderr


def test_a_model_that_does_not_exist_ends_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "run", "/nowhere"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=GUARD_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "/nowhere has no config.json" in done.stderr

"""Each example streams a chat, keeps a deadline, cancels, decodes an error and calls a tool, through Envoy."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.e2e.stack import Stack
from tests.languages.example import EXAMPLES, FOLDER, Example, expected_answer, faults
from tests.waiting import GUARD_S


@pytest.fixture(scope="module")
def answer(stack: Stack) -> str:
    """The answer to the examples' first question."""
    return expected_answer(stack.url)


@pytest.fixture(scope="module")
def said(stack: Stack) -> dict[str, Future[dict[str, str]]]:
    """The output of each example that can run here, two at a time, since compilers take most of the time."""
    target = stack.url.removeprefix("http://")
    with ThreadPoolExecutor(2) as pool:
        return {each.name: pool.submit(each.run, target) for each in EXAMPLES if not each.missing()}


@pytest.mark.parametrize("example", EXAMPLES, ids=[each.name for each in EXAMPLES])
def test_example(example: Example, said: dict[str, Future[dict[str, str]]], answer: str) -> None:
    """The example passes all five calls, or is skipped with the missing parts of its toolchain."""
    if lacking := example.missing():
        pytest.skip(f"{example.name} can't run here without {', '.join(lacking)}; make test-languages installs all")
    assert faults(said[example.name].result(), answer) == []


def test_csharp_is_parsed() -> None:
    """Debian has no gRPC for C#, so its messages are generated and the program is parsed with them."""
    if lacking := [each for each in ("mcs", "protoc") if shutil.which(each) is None]:
        pytest.skip(f"csharp can't be parsed here without {', '.join(lacking)}; make test-languages installs all")
    command = ["make", "--silent", "-C", str(FOLDER / "csharp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=GUARD_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("parsed: ")

"""Every example of the README and of docs/ works as written: calls of a running product, and settings.

Answers are random, so each call is repeated EXAMPLE_TRIES times.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from process.settings.process_settings import read_settings
from service.settings.config import Settings
from tests.e2e.clients.warm_python import WarmPython, imported
from tests.e2e.stack import ROOT, Stack
from tests.waiting import GUARD_S

DOOR = "http://127.0.0.1:8080"  # as the documents have it
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "clients/python/README.md"]
COMMAND = re.compile(r"(\.venv/bin/)?sluice (chat [\"']|complete|embed|models(?! load)|endpoints|status|bench)")
BLOCK = re.compile(r"^```(sh|python|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TRIES = int(os.environ.get("EXAMPLE_TRIES", "1"))
LONGEST_S = GUARD_S + 2 * TRIES  # the limit of all tries of an example together
# Questions that the bundled model can answer.
KNOWN = {"What is the capital of France?": "Paris", "Who are you?": "sluice-demo"}
ENDS = (
    "data: [DONE]",
    "event: response.completed",
    "event: message_stop",
    "event: message-end",
    '"text_output":"","finish_reason"',
    '"content":""},"done":true',
)
TEXT = re.compile(r'"(?:content|text|delta|text_output|response)":\s*("(?:[^"\\]|\\.)*")')
ERROR = re.compile(r'"error\w*":\s*(?!\s|null)')  # a field, because text may contain the same characters
# A status of 400 or above ends the block; a stream that fails later reports the error in its last event.
PRELUDE = f"""
set -eu
curl() {{ command curl --silent --show-error --fail-with-body --max-time {GUARD_S:.0f} "$@"; echo; }}
buf() {{ "{ROOT}/.cache/npm/node_modules/.bin/buf" "$@"; }}
sluice() {{ "{sys.executable}" -m cli "$@"; }}
"""


def examples(language: str, text: str = DOOR) -> list[tuple[Path, str]]:
    """Return (page, code) of each block that contains the text; by default, of those that call the product."""
    found = [(page, block) for page in PAGES for block in BLOCK.findall(page.read_text())]
    return [(page, code) for page, (kind, code) in found if kind == language and text in code]


def names(found: list[tuple[Path, str]]) -> list[str]:
    """Return the page and the index of each example."""
    return [f"{page.relative_to(ROOT)} {index}" for index, (page, _) in enumerate(found)]


def run(command: list[str], **environment: str) -> str:
    """Return the output of a command, which must succeed within LONGEST_S and print something."""
    limited = ["timeout", str(LONGEST_S), *command]  # also ends the command's child processes
    done = subprocess.run(limited, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    return done.stdout


def is_right(code: str, text: str) -> bool:
    """Return True if the model's text answers the example's known questions and is no refusal."""
    times_by_answer = {answer: code.count(question) for question, answer in KNOWN.items() if question in code}
    return all(text.count(answer) >= times for answer, times in times_by_answer.items()) and not (
        times_by_answer and "cannot help" in text
    )


def commands() -> list[tuple[Path, str]]:
    """Return (page, line) of each line that calls a running product with `sluice` and needs no terminal."""
    found = [(page, code) for page in PAGES for kind, code in BLOCK.findall(page.read_text()) if kind == "sh"]
    lines = [(page, line) for page, code in found for line in code.splitlines() if DOOR not in line]
    return [(page, line) for page, line in lines if COMMAND.match(line)]


CALLS, PYTHON, SETTINGS = examples("sh"), examples("python"), examples("yaml", "service.yaml")
STARTS = [(page, code) for page, code in CALLS if "make run" in code]
SHELL = [each for each in CALLS if each not in STARTS]
COMMANDS = commands()


@pytest.mark.parametrize(("page", "code"), SHELL, ids=names(SHELL))
def test_shell_example(stack: Stack, page: Path, code: str) -> None:
    """Each command succeeds, each stream is complete, and known questions are answered every time."""
    for _ in range(1 if "conformance" in code else TRIES):  # it repeats its own requests
        here = code.replace(DOOR, stack.url).replace(".state/8080", str(stack.state_folder))
        printed = run(["bash", "-c", PRELUDE + here])
        assert not ERROR.search(printed), printed
        assert sum(printed.count(end) for end in ENDS) == code.count("curl -N")
        assert is_right(code, "".join(json.loads(text) for text in TEXT.findall(printed))), printed


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=names(COMMANDS))
def test_command_example(stack: Stack, page: Path, line: str) -> None:
    """A command of `sluice` succeeds and prints the known answer."""
    for _ in range(TRIES):
        script = PRELUDE + line.removeprefix(".venv/bin/")
        printed = run(["bash", "-c", script], SLUICE_URL=stack.url)
        assert is_right(line, printed), printed


@pytest.mark.parametrize(("page", "code"), STARTS, ids=names(STARTS))
def test_started_example(tmp_path: Path, page: Path, code: str) -> None:
    """The commands before the start take effect: the printed key is accepted."""
    code = code.replace("keys.yaml", str(tmp_path / "keys.yaml"))
    before, variables, after = re.split(r"^(.*)make run\n", code, flags=re.MULTILINE)
    (key,) = run(["bash", "-c", PRELUDE + before]).split()
    stack = Stack("--model=demo=demo/model", environment=dict(each.split("=", 1) for each in variables.split()))
    try:
        stack.wait_for("sluice is ready.")
        call = PRELUDE + after.replace(DOOR, stack.url)
        assert '"object":"list"' in run(["bash", "-c", call.replace("sk-sluice-…", key)])
        refused = subprocess.run(["bash", "-c", call], capture_output=True, text=True, timeout=GUARD_S, check=False)
        assert "401" in refused.stderr
    finally:
        stack.stop()


@pytest.fixture(scope="module")
def pythons() -> Iterator[Callable[[str], WarmPython]]:
    """The interpreters of examples by path, each started for its first example."""
    with contextlib.ExitStack() as started:

        @cache
        def warm(python: str) -> WarmPython:
            paths = os.pathsep.join(str(ROOT / each) for each in ("generated", "clients/python/src"))
            environment = {"PYTHONPATH": paths} if python == sys.executable else {}
            return started.enter_context(WarmPython(python, {"LITELLM_LOCAL_MODEL_COST_MAP": "True"} | environment))

        yield warm


@pytest.mark.parametrize(("page", "code"), PYTHON, ids=names(PYTHON))
def test_python_example(stack: Stack, pythons: Callable[[str], WarmPython], page: Path, code: str) -> None:
    """Each SDK, in its own environment, prints the known answers; examples without an SDK run in the project's."""
    environments = [ROOT / ".venvs" / module.partition(".")[0] / "bin" / "python" for module in imported(code)]
    python = next((str(path) for path in environments if path.exists()), sys.executable)
    printed = pythons(python).run(code.replace(DOOR, stack.url), times=TRIES, limit_s=LONGEST_S)
    *tries, rest = printed.split("\f")
    assert len(tries) == TRIES
    assert not rest.strip()
    for each in tries:
        assert each.strip()
        assert is_right(code, each), each


@pytest.mark.parametrize(("page", "code"), SETTINGS, ids=names(SETTINGS))
def test_settings_example(tmp_path: Path, page: Path, code: str) -> None:
    """The service accepts each settings file."""
    file = tmp_path / "service.yaml"
    file.write_text(code)
    settings = read_settings(Settings, ["--config", str(file)])
    assert len(settings.served_models()) == code.count("path: ")
    if page.parent == ROOT:
        assert settings.endpoints
        assert settings.served_models()[0].cache_share == 0.8


def test_every_dialect_has_an_sdk_and_a_curl_example() -> None:
    """Each dialect's page has an SDK example and a curl example, which streams if the API can stream."""
    for page in set((ROOT / "docs" / "api").glob("*.md")) - {
        ROOT / "docs" / "api" / f"{name}.md" for name in ("agents", "clients")
    }:
        call = "curl " if page.stem in {"rank", "kserve"} else "curl -N"
        assert any(each == page and call in code for each, code in SHELL), page.name
        assert any(each == page for each, _ in PYTHON), page.name

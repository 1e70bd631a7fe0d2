"""Every example of the README and of docs/ works as it is written: calls of a running product, and settings."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from process.settings import read_settings
from service.config import Settings
from tests.e2e.stack import ROOT, Stack

DOOR = "http://127.0.0.1:8080"  # as the documents have it
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "clients/python/README.md"]
BLOCK = re.compile(r"^```(sh|python|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# A status of 400 or above ends the block; a stream that fails later says so in its last event.
PRELUDE = f"""
set -eu
curl() {{ command curl --silent --show-error --fail-with-body --max-time 60 "$@"; echo; }}
buf() {{ "{ROOT}/.cache/npm/node_modules/.bin/buf" "$@"; }}
"""


def examples(language: str, text: str = DOOR) -> list[tuple[Path, str]]:
    """(page, code) of each block that has the text; by default, that calls the product."""
    found = [(page, block) for page in PAGES for block in BLOCK.findall(page.read_text())]
    return [(page, code) for page, (kind, code) in found if kind == language and text in code]


def names(found: list[tuple[Path, str]]) -> list[str]:
    """The page and the place of each."""
    return [f"{page.relative_to(ROOT)} {index}" for index, (page, _) in enumerate(found)]


def run(command: list[str], **environment: str) -> str:
    """What a command prints. It must end well within 110 s, and print something."""
    limited = ["timeout", "110", *command]  # which ends what the command has started, too
    done = subprocess.run(limited, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    return done.stdout


CALLS, PYTHON, SETTINGS = examples("sh"), examples("python"), examples("yaml", "service.yaml")
STARTS = [(page, code) for page, code in CALLS if "make run" in code]
SHELL = [each for each in CALLS if each not in STARTS]


@pytest.mark.parametrize(("page", "code"), SHELL, ids=names(SHELL))
def test_shell_example(stack: Stack, page: Path, code: str) -> None:
    """Each command is answered, and each stream comes to its end."""
    printed = run(["bash", "-c", PRELUDE + code.replace(DOOR, stack.door)])
    assert '"error' not in printed.replace('"error":null', "")
    ends = ("data: [DONE]", "event: response.completed", "event: message_stop", '"text_output":"","finish_reason"')
    assert sum(printed.count(end) for end in ends) == code.count("curl -N")


@pytest.mark.parametrize(("page", "code"), STARTS, ids=names(STARTS))
def test_started_example(tmp_path: Path, page: Path, code: str) -> None:
    """What is done before the product starts counts for what is asked of it: the key that is printed is good."""
    code = code.replace("keys.yaml", str(tmp_path / "keys.yaml"))
    before, variables, after = re.split(r"^(.*)make run\n", code, flags=re.MULTILINE)
    (key,) = run(["bash", "-c", PRELUDE + before]).split()
    stack = Stack("--model=demo=demo/model", environment=dict(each.split("=", 1) for each in variables.split()))
    try:
        stack.wait_for("sluice is ready.")
        call = PRELUDE + after.replace(DOOR, stack.door)
        assert '"object":"list"' in run(["bash", "-c", call.replace("sk-sluice-…", key)])
        refused = subprocess.run(["bash", "-c", call], capture_output=True, text=True, timeout=60, check=False)
        assert "401" in refused.stderr
    finally:
        stack.stop()


@pytest.mark.parametrize(("page", "code"), PYTHON, ids=names(PYTHON))
def test_python_example(stack: Stack, page: Path, code: str) -> None:
    """Each SDK, in its own environment, answers what the page asks it; what needs none runs in the project's."""
    sdks = re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE)
    own = [python for sdk in sdks if (python := ROOT / ".venvs" / sdk / "bin" / "python").exists()]
    python = own[0] if own else sys.executable
    paths = os.pathsep.join(str(ROOT / each) for each in ("generated", "clients/python/src"))
    environment = {} if own else {"PYTHONPATH": paths}
    run([str(python), "-c", code.replace(DOOR, stack.door)], LITELLM_LOCAL_MODEL_COST_MAP="True", **environment)


@pytest.mark.parametrize(("page", "code"), SETTINGS, ids=names(SETTINGS))
def test_settings_example(tmp_path: Path, page: Path, code: str) -> None:
    """The service takes each file of settings."""
    file = tmp_path / "service.yaml"
    file.write_text(code)
    settings = read_settings(Settings, ["--config", str(file)])
    assert len(settings.served_models()) == code.count("path: ")
    if page.parent == ROOT:
        assert settings.endpoints
        assert settings.served_models()[0].cache_share == 0.8


def test_every_dialect_has_both() -> None:
    """Each dialect's page has an SDK and a call of curl, which is a stream where anything streams."""
    for page in set((ROOT / "docs" / "api").glob("*.md")) - {ROOT / "docs" / "api" / "clients.md"}:
        call = "curl " if page.stem == "rank" else "curl -N"
        assert any(each == page and call in code for each, code in SHELL), page.name
        assert any(each == page for each, _ in PYTHON), page.name

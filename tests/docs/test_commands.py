"""The tests that the pages name as proof of a guarantee."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, name
from tools.docs.docs_site import ROOT

COMMANDS = sorted(
    {
        (name(page), command)
        for page in PAGES
        for command in re.findall(r"`pytest ([^`\n]*tests/[^`\n]*)`", page.read_text())
    }
)


def named_tests(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the names of the tests in a file or folder, and their decorators."""
    for file in [path] if path.is_file() else sorted(path.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{file.name}::{node.name}", " ".join(map(ast.unparse, node.decorator_list))


def test_pages_name_tests() -> None:
    """The commands are found."""
    assert len(COMMANDS) > 50


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_each_command_runs_tests(page: str, command: str) -> None:
    """The paths exist, each word of `-k` is that of a test, and `-m long` is there if it is needed."""
    words = shlex.split(command)
    found = [test for word in words if word.startswith("tests") for test in named_tests(ROOT / word)]
    expressions = words[words.index("-k") + 1].split(" or ") if "-k" in words else [""]
    for expression in expressions:
        chosen = [test for test in found if expression.lower() in " ".join(test).lower()]
        assert chosen, f"{page}: no test is named {expression!r}"
        assert "long" in words or not all("mark.long" in decorators for _, decorators in chosen)

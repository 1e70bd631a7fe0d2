"""Blocks of code in the project's pages are code of their language; tests/e2e/clients/test_examples.py runs calls."""

from __future__ import annotations

import ast
import json
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import PAGES, blocks, name


def check_shell(code: str) -> None:
    """Raises AssertionError with the shell's words."""
    done = subprocess.run(["bash", "-n"], input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def check_typescript(code: str) -> None:
    """What a bundler's parser would ask for is too slow here; brackets at least close, and nothing is left out."""
    assert all(code.count(a) == code.count(b) for a, b in ("()", "[]", "{}"))
    assert "…" not in code


CHECKS: Mapping[str, Callable[[str], object]] = {
    "python": ast.parse,
    "sh": check_shell,
    "bash": check_shell,  # what no other shell takes
    "json": json.loads,
    "yaml": lambda code: list(yaml.safe_load_all(code)),
    "toml": tomllib.loads,
    "ts": check_typescript,
    "": lambda code: code,  # what programs print, and drawings
}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_is_of_its_language(page: Path) -> None:
    """Python and shell parse, data loads, and no block names another language."""
    for language, code in blocks(page):
        assert language in CHECKS, language
        CHECKS[language](code)

"""Code blocks in the project's pages are valid in their language; tests/e2e/clients/test_examples.py runs the calls."""

from __future__ import annotations

import ast
import json
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import PAGES, blocks, name


def check_shell(code: str) -> None:
    """Raise AssertionError with the shell's message."""
    done = subprocess.run(["bash", "-n"], input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def check_typescript(code: str) -> None:
    """Check that brackets are balanced and nothing is elided; a bundler's parser would be too slow here."""
    assert all(code.count(a) == code.count(b) for a, b in ("()", "[]", "{}"))
    assert "…" not in code


def check_unit(code: str) -> None:
    """Check a part of a systemd unit, in which names may repeat."""
    ConfigParser(strict=False).read_string(code)


CHECKS: Mapping[str, Callable[[str], object]] = {
    "python": ast.parse,
    "sh": check_shell,
    "bash": check_shell,  # syntax of bash only
    "json": json.loads,
    "yaml": lambda code: list(yaml.safe_load_all(code)),
    "toml": tomllib.loads,
    "ini": check_unit,
    "ts": check_typescript,
    "": lambda code: code,  # output of programs, and drawings
}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_is_valid_in_its_language(page: Path) -> None:
    """Python and shell parse, data loads, and no block names another language."""
    for language, code in blocks(page):
        assert language in CHECKS, language
        CHECKS[language](code)

"""`sluice` run in the test's own process, which saves the start of a process and its imports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from typer.testing import CliRunner

from cli.app import APP


class Done(NamedTuple):
    """What a command that has ended printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


def sluice(*words: str, text: str | None = None, url: str = "", env: Mapping[str, str] | None = None) -> Done:
    """Run a command to its end, with `text` as its standard input; raise the exceptions that it does not handle."""
    options = ("--url", url) if url else ()
    result = CliRunner().invoke(APP, [*words, *options], input=text, env=env, catch_exceptions=False)
    return Done(result.exit_code, result.stdout, result.stderr)

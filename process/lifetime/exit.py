"""End a process that can't continue."""

from __future__ import annotations

import sys
from typing import NoReturn

from process.errors import ConfigError
from process.logs.lines import Lines


def exit_with(program: str, problem: object, code: int) -> NoReturn:
    """End with `code` and one line on standard error; invalid settings have a line for each problem."""
    lines = Lines(sys.stderr.fileno(), str)
    for text in problem.problems if isinstance(problem, ConfigError) else (str(problem),):
        lines.write(f"{program}: {' '.join(text.split())}")
    sys.exit(code)

"""End a process that can't continue."""

from __future__ import annotations

import sys
from typing import NoReturn

from process.logs.lines import Lines


def exit_with(program: str, problem: object, code: int) -> NoReturn:
    """End with `code` and one line on standard error."""
    Lines(sys.stderr.fileno(), str).write(f"{program}: {' '.join(str(problem).split())}")
    sys.exit(code)

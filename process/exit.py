"""The end of a process that can't go on."""

from __future__ import annotations

import sys
from typing import NoReturn


def exit_with(program: str, problem: object, code: int) -> NoReturn:
    """End with `code` and one line on standard error."""
    sys.stderr.write(f"{program}: {' '.join(str(problem).split())}\n")
    sys.exit(code)

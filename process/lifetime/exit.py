"""End a process that can't continue."""

from __future__ import annotations

import errno
import resource
import sys
from typing import Final, NoReturn

from process.errors import ConfigError
from process.logs.lines import Lines

_MIB: Final = 1 << 20


def shortage(error: BaseException) -> str | None:
    """Return the text for an error by which a process lacks memory or threads; None for any other error."""
    if isinstance(error, OSError) and error.errno in {errno.ENOMEM, errno.EAGAIN}:
        found = error.strerror or "no memory"
    elif isinstance(error, MemoryError):
        found = "an allocation failed"
    elif isinstance(error, RuntimeError) and "start new thread" in str(error):
        found = "a thread could not be started"
    else:
        return None
    return f"not enough memory: {found}; give the process more (ulimit -v, ulimit -u, the container's limits)"


def require_address_space(program: str, num_bytes: int) -> None:
    """End with code 1 if the process may map less (ulimit -v): libraries would abort it when they start threads."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < num_bytes:
        text = f"not enough memory: ulimit -v is {limit // _MIB} MiB, and at least {num_bytes // _MIB} MiB are needed"
        exit_with(program, text, 1)


def exit_with(program: str, problem: object, code: int) -> NoReturn:
    """End with `code` and one line on standard error; invalid settings have a line for each problem."""
    lines = Lines(sys.stderr.fileno(), str)
    for text in problem.problems if isinstance(problem, ConfigError) else (str(problem),):
        lines.write(f"{program}: {' '.join(text.split())}")
    sys.exit(code)

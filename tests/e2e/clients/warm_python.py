"""Python programs in processes forked from one that has imported their packages, which takes seconds of each start."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.stack import ROOT

# It reads requests and prints exit codes. A forked process, which runs the program, ends as any interpreter does.
SERVER = """
import contextlib, importlib, json, os, signal, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
warm = set()
for line in sys.stdin:
    request = json.loads(line)
    for name in [*request["modules"], *warm]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        break
    os.close(writing)
    with os.fdopen(reading) as names:
        warm |= set(names.read().split())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(code, file=answers, flush=True)
else:
    sys.exit()
signal.alarm(request["limit_s"])
for number, path in enumerate([os.devnull, request["stdout"], request["stderr"]]):
    os.dup2(os.open(path, os.O_RDWR), number)
sys.stdin = open(0)
for _ in range(request["times"]):
    exec(compile(request["code"], "example", "exec"), {"__name__": "__main__"})
    print("\\f")
packages = {name.partition(".")[0] for name in request["modules"]} - sys.stdlib_module_names
with os.fdopen(writing, "w") as names:
    names.write(" ".join(name for name in list(sys.modules) if name.partition(".")[0] in packages))
"""


class WarmPython:
    """One interpreter, whose processes start with what earlier programs have imported from the packages they name."""

    def __init__(self, python: str, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [python, "-c", SERVER],
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def run(self, code: str, *, times: int, limit_s: float) -> str:
        """Run a program several times, and return its output, with a form feed after each; it must succeed."""
        with tempfile.NamedTemporaryFile() as stdout, tempfile.NamedTemporaryFile() as stderr:
            request = {
                "code": code,
                "modules": imported(code),
                "times": times,
                "limit_s": round(limit_s),
                "stdout": stdout.name,
                "stderr": stderr.name,
            }
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            print(json.dumps(request), file=self._process.stdin, flush=True)
            code_of_end = self._process.stdout.readline().strip()
            printed = Path(stdout.name).read_text()
            assert code_of_end == "0", printed + Path(stderr.name).read_text()
            return printed


def imported(code: str) -> Sequence[str]:
    """Return the modules that a program imports at its top level."""
    return re.findall(r"^(?:from|import) ([\w.]+)", code, re.MULTILINE)

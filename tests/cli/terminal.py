"""A command in a pseudo-terminal, as somebody sits before it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.e2e.stack import ROOT
from tests.waiting import GUARD_S

_PROGRAM = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from cli.__main__ import main
sys.argv[0] = "sluice"
main()
"""


class Terminal:
    """`sluice` with these words; all that it shows is collected."""

    def __init__(self, *words: str, env: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.shown = ""
        # A session of its own, whose terminal this becomes: Ctrl-C typed there is a signal.
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *words],
            cwd=ROOT, env={**os.environ, **env}, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._master, text.encode())

    def until(self, text: str) -> str:
        """Wait for `text` after what was waited for before; what was shown up to its end."""
        deadline = time.monotonic() + GUARD_S
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} not in {self.shown!r}"
            assert self._read(), f"{text!r} not in {self.shown!r}, and it has ended"
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def end(self) -> int:
        """Read on until it ends; its exit code."""
        while self._read():
            pass
        return self.process.wait(GUARD_S)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], GUARD_S)[0]:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # the other side is closed
            return False
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

"""A command in a pseudo-terminal."""

from __future__ import annotations

import codecs
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
    """A run of `sluice` with these arguments; its output is collected."""

    def __init__(self, *arguments: str, env: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")  # of reads that end anywhere
        # In a new session the pseudo-terminal is the controlling terminal, so that Ctrl-C sends a signal.
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *arguments],
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
        """Type keys."""
        os.write(self._master, text.encode())

    def until(self, text: str) -> str:
        """Wait for `text` after the previously awaited text, and return the output up to its end."""
        deadline = time.monotonic() + GUARD_S
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} not in {self.shown!r}"
            assert self._read(), f"{text!r} not in {self.shown!r}, and it has ended"
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def interrupt_until(self, text: str) -> str:
        """Press Ctrl-C, again if it had no effect, until `text` is shown. Return the output up to its end.

        Python ignores a Ctrl-C that arrives just before it starts to read.
        """
        deadline = time.monotonic() + GUARD_S
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} not in {self.shown!r}"
            self.type("\x03")
            self._read(2)
        return self.until(text)

    def end(self) -> int:
        """Read until the command ends, and return its exit code."""
        while self._read():
            pass
        return self.process.wait(GUARD_S)

    def _read(self, timeout_s: float = GUARD_S) -> bool:
        if not select.select([self._master], [], [], timeout_s)[0]:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # the other side is closed
            return False
        self.shown = (self.shown + self._decoder.decode(data)).replace("\r\n", "\n")
        return bool(data)

"""Lines to a descriptor whose reader may be slow, stopped or gone, and whose disk may be full."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

_STARTUP_TIMEOUT_S = 0.1  # for a reader that has kept up until now


class Lines:
    """Writes lines to a descriptor, and waits for nobody: those for which there is no room are left out and counted.

    For one thread at a time. The descriptor stays its owner's.
    """

    def __init__(self, descriptor: int, notice: Callable[[int], str]) -> None:
        """`notice` is the line that tells how many were left out, before the first one that has room again."""
        self._descriptor = descriptor
        self._notice = notice
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._num_left_out = 0
        self._is_torn = False  # the last line was left out after its beginning

    def write(self, line: str) -> None:
        """Write a line, given without its end, or leave it out."""
        if self._num_left_out and self._put(self._notice(self._num_left_out)):
            self._num_left_out = 0
        if self._num_left_out or not self._put(line):
            self._num_left_out += 1

    def _put(self, line: str) -> bool:
        data = ("\n" * self._is_torn + line + "\n").encode(errors="replace")
        size = len(data)
        try:
            while data:
                # What has room takes at least PIPE_BUF bytes without waiting.
                if not self._poll.poll(0 if self._num_left_out else _STARTUP_TIMEOUT_S * 1000):
                    break
                data = data[os.write(self._descriptor, data[: select.PIPE_BUF]) :]
        except OSError:
            pass  # nobody reads any more, or the disk is full
        self._is_torn = bool(data) and (self._is_torn or len(data) < size)
        return not data

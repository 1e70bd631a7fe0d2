"""Write lines to a descriptor whose reader may be slow, stopped or gone, or whose disk may be full."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

_WRITE_TIMEOUT_S = 0.1  # for a reader that has kept up so far


class Lines:
    """A non-blocking writer of lines to a descriptor: lines that don't fit into its buffer are dropped and counted.

    Not thread-safe. Does not close the descriptor.
    """

    def __init__(self, descriptor: int, notice: Callable[[int], str]) -> None:
        """`notice` returns the line that reports the number of dropped lines, written before the next one that fits."""
        self._descriptor = descriptor
        self._notice = notice
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._num_dropped = 0
        self._is_torn = False  # the last line was dropped after its beginning

    def write(self, line: str) -> None:
        """Write a line, given without its line feed, or drop it."""
        if self._num_dropped and self._put(self._notice(self._num_dropped)):
            self._num_dropped = 0
        if self._num_dropped or not self._put(line):
            self._num_dropped += 1

    def _put(self, line: str) -> bool:
        """Write a line without blocking for long. Return False if it was dropped, in whole or in part."""
        data = ("\n" * self._is_torn + line + "\n").encode(errors="replace")
        size = len(data)
        try:
            while data:
                # A descriptor that polls as writable accepts at least PIPE_BUF bytes without blocking.
                if not self._poll.poll(0 if self._num_dropped else _WRITE_TIMEOUT_S * 1000):
                    break
                data = data[os.write(self._descriptor, data[: select.PIPE_BUF]) :]
        except OSError:
            pass  # the reader is gone, or the disk is full
        self._is_torn = bool(data) and (self._is_torn or len(data) < size)
        return not data

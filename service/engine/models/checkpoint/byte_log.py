"""Log the progress of a byte transfer: the bytes done, the total, and the speed.

Each line also reports its bytes in the field that `process.logs.loading_progress` defines.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from process.logs.loading_progress import progress_fields

_FIRST_S: Final = 2.0
_LONGEST_S: Final = 15.0
_SHARE: Final = 0.1  # of the elapsed time, until the next line

_log = logging.getLogger(__name__)


class ByteLog:
    """A progress log. It writes the first line after two seconds and later lines less often. It is thread-safe."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`name` describes the transfer, such as `loading NAME`."""
        self._name = name
        self._clock = clock
        self._began = clock()
        self._next = self._began + _FIRST_S
        self._num = 0
        self._lock = threading.Lock()

    def advance(self, num: int, total: int) -> None:
        """Add `num` transferred bytes; `total` is the known total."""
        with self._lock:
            self._num += num
            now = self._clock()
            if now < self._next:
                return
            took = now - self._began
            self._next = now + min(_LONGEST_S, max(_FIRST_S, _SHARE * took))
            speed = self._num / took / 1e6
            text = "%s: %.1f of %.1f MB, %.2g MB/s"
            extra = progress_fields(self._num)
            _log.info(text, self._name, self._num / 1e6, total / 1e6, speed, extra=extra)

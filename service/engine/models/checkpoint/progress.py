"""The progress of a load: reported to the `RunningLoad`, and shown as a bar in a terminal, as log lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.engine.interface.running_load import LoadedBytes, running_load
from service.engine.models.checkpoint.byte_log import ByteLog

_log = logging.getLogger(__name__)


@contextmanager
def load_progress(name: str, num_bytes: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the bytes read since its last call. Progress is shown on stderr or logged.

    The function raises LoadCancelled if the running load was cancelled.
    """
    count = _ByteCount(num_bytes)
    with _shown(name, num_bytes) as show:
        yield lambda read: count.add(read, show)
    count.complete()


class _ByteCount:
    """The bytes of a load that were read. It is thread-safe."""

    def __init__(self, total: int) -> None:
        self._load = running_load()
        self._total = total
        self._num = 0
        self._lock = threading.Lock()
        self._load.report(LoadedBytes(0, total))

    def add(self, num: int, show: Callable[[int], None]) -> None:
        """Report that `num` more bytes were read, and show it by `show`."""
        with self._lock:
            self._num = min(self._num + num, self._total)
            self._load.report(LoadedBytes(self._num, self._total))
        show(num)

    def complete(self) -> None:
        """Report that all bytes that are needed were read."""
        self._load.report(LoadedBytes(self._total, self._total, is_complete=True))


@contextmanager
def _shown(name: str, num_bytes: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows the bytes read since its last call."""
    began = time.monotonic()
    if sys.stderr.isatty() or os.environ.get("TTY_COMPATIBLE") == "1":
        # Imported here: the import takes half of a small model's load, and is not needed without a terminal.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task(f"loading {name}", total=num_bytes)
            yield lambda read: progress.advance(task, read)
    else:
        _log.info("loading %s, %.1f MB", name, num_bytes / 1e6)
        log = ByteLog(f"loading {name}")
        yield lambda read: log.advance(read, num_bytes)
    _log.info("loaded %s in %.1f s", name, time.monotonic() - began)

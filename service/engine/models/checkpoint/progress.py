"""The progress of a load: a bar in a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.engine.models.checkpoint.byte_log import ByteLog

_log = logging.getLogger(__name__)


@contextmanager
def load_progress(name: str, num_bytes: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the bytes read since its last call. Progress is shown on stderr or logged."""
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

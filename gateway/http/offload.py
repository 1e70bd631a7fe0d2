"""Parse and serialise large bodies off the event loop, so that it keeps serving other requests.

A single thread does this work: Python runs one thread at a time, and several threads would reduce the event loop's
share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_LARGE: Final = 64 * 1024  # bytes; less work costs less than the switch to another thread
_THREAD: Final = ThreadPoolExecutor(1, thread_name_prefix="offload")

T = TypeVar("T")


async def offload(num_bytes: int, work: Callable[[], T]) -> T:
    """Return `work()`. Small work runs immediately, other work on the thread in first-in, first-out order."""
    if num_bytes < _LARGE:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)

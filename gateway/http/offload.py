"""Parse and serialise large bodies off the event loop, so that it keeps serving other requests.

One thread does it: Python runs one of them at a time anyway, and several threads would leave the loop a smaller share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_LARGE: Final = 64 * 1024  # bytes; smaller work costs less than the switch to another thread
_THREAD: Final = ThreadPoolExecutor(1, thread_name_prefix="offload")

T = TypeVar("T")


async def offload(num_bytes: int, work: Callable[[], T]) -> T:
    """Return `work()`, computed at once if it handles few bytes, or else on the thread in first-in, first-out order."""
    if num_bytes < _LARGE:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)

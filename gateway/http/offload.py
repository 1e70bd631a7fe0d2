"""Large bodies and answers are read and written beside the event loop, so that it goes on answering others.

By one thread: Python runs one piece of them at a time anyway, and several would leave the loop a smaller part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_LARGE: Final = 64 * 1024  # bytes, from which on the way to another thread is worth it
_THREAD: Final = ThreadPoolExecutor(1, thread_name_prefix="aside")

T = TypeVar("T")


async def aside(num_bytes: int, work: Callable[[], T]) -> T:
    """Do `work` that reads or writes so many bytes: at once if they are few, else on the thread, in its turn."""
    if num_bytes < _LARGE:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)

"""Work that the end of the process does not wait for."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

_Result = TypeVar("_Result")

_threads: list[threading.Thread] = []  # those that have not ended


async def run_abandonable(name: str, work: Callable[[], _Result]) -> _Result:
    """Run `work` on a separate thread, in a copy of the context, and return its result.

    If the caller is cancelled, the work continues.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Result] = loop.create_future()

    def finish(outcome: Callable[[], None]) -> None:
        if not done.done():
            outcome()

    def run() -> None:
        try:
            outcome = partial(done.set_result, work())
        except BaseException as error:  # noqa: BLE001  it is raised where the result is awaited
            outcome = partial(done.set_exception, error)
        _threads.remove(threading.current_thread())
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(finish, outcome)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name=name, daemon=True)
    _threads.append(thread)
    thread.start()
    return await done


def exit_if_abandoned(code: int) -> None:
    """End the process with `code` if such work still runs: the interpreter can't end safely while it does."""
    if _threads:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

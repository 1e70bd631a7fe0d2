"""Work that the end of the process does not wait for."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")

_threads: list[threading.Thread] = []  # those that have not ended


async def run_abandonable(name: str, work: Callable[[], _Result]) -> _Result:
    """Run `work` on a thread of its own and return its result. If the caller is cancelled, the work goes on."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Result] = loop.create_future()

    def finish(result: _Result | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  a result if there is no error

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001  it is raised where the result is awaited
            error = raised
        _threads.remove(threading.current_thread())
        try:
            loop.call_soon_threadsafe(finish, result, error)
        except RuntimeError:  # the loop was closed meanwhile
            return

    thread = threading.Thread(target=run, name=name, daemon=True)
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

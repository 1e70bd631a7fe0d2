"""Work for a client that ends when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from starlette.types import Receive

from gateway.http.body import ClientDisconnected, disconnected

_CANCEL_GRACE_S: Final = 1.0


async def run_until_disconnect(answer: Coroutine[Any, Any, None], receive: Receive, limit_s: float | None) -> None:
    """Run `answer` until it ends or the client disconnects. The request's body must have been read.

    Raise ClientDisconnected, also if it takes `limit_s` seconds.
    """
    answering = asyncio.create_task(answer)
    leaving = asyncio.create_task(disconnected(receive))
    try:
        await asyncio.wait({answering, leaving}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnected
        await answering
    finally:
        answering.cancel()
        leaving.cancel()
        await asyncio.wait({answering, leaving}, timeout=_CANCEL_GRACE_S)
        answering.cancel()  # the client did not accept the final write in time

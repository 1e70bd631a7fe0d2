"""The running requests that another call can abort by their ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Any, Final, TypeVar

_MAX_QUEUED: Final = 16  # messages of one request that wait for the client

_Message = TypeVar("_Message")


class Aborted(Exception):  # noqa: N818  a name states the condition
    """Another call aborted the request."""


class _Request:
    """One running request: its messages in a queue, in which an exception or None is the last item."""

    def __init__(self, messages: AsyncGenerator[Any, None]) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue(_MAX_QUEUED)
        self.task = asyncio.create_task(self._run(messages))

    async def _run(self, messages: AsyncGenerator[Any, None]) -> None:
        try:
            async with aclosing(messages):
                async for message in messages:
                    await self.queue.put(message)
        except Exception as error:  # noqa: BLE001  raised to the reader of the queue
            await self.queue.put(error)
        else:
            await self.queue.put(None)

    async def abort(self) -> None:
        """Stop the request, and return when it has ended. Messages that the client has not read are dropped."""
        self.task.cancel()
        await asyncio.wait([self.task])
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(Aborted())


class RunningRequests:
    """The running requests by caller and id. Ids need not be unique."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], set[_Request]] = {}

    async def serve(
        self, caller_id: str, request_id: str, messages: AsyncGenerator[_Message, None]
    ) -> AsyncGenerator[_Message, None]:
        """Yield the messages of a request. Raise its error, or Aborted. Leaving closes `messages`."""
        key = caller_id, request_id
        request = _Request(messages)
        self._open.setdefault(key, set()).add(request)
        try:
            while (item := await request.queue.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self._open[key].discard(request)
            if not self._open[key]:
                del self._open[key]
            request.task.cancel()
            await asyncio.wait([request.task])

    async def abort(self, caller_id: str, request_ids: Collection[str]) -> None:
        """Abort a caller's requests with these ids, and return when none of them is running. Others are ignored."""
        found = [each for name in request_ids for each in self._open.get((caller_id, name), ())]
        if found:
            await asyncio.gather(*(each.abort() for each in found))

"""Run the calls of a blocking store on a thread of their own, each within a time limit.

A store that hangs delays no answer for longer than the limit, and calls that follow are rejected at once until it moves
again. The thread is a daemon: a store that hangs does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from service.storage.responses.port import Addition, ResponseRecord, ResponseStore, StoreFailed, StoreUnavailable

_PURGE_INTERVAL_S: Final = 600.0

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
_Work = Callable[[ResponseStore], Any]
_Undo = Callable[[ResponseStore, Any], object]


class StoreThread:
    """The asynchronous side of a store. `run` and `put` are called on the event loop's thread."""

    def __init__(self, open_store: Callable[[], ResponseStore], timeout_s: float) -> None:
        """Open the store. If that raises StoreUnavailable, it is opened by a later call; raise StoreFailed otherwise.

        `timeout_s` is the longest time that a call takes, including its wait for earlier ones.
        """
        self._open_store = open_store
        self._store: ResponseStore | None = None
        try:
            self._store = open_store()
        except StoreUnavailable as error:
            _log.error("nothing can be stored until the store is usable: %s", error)
        self._timeout_s = timeout_s
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._overdue: set[_Job] = set()  # calls that exceeded the time limit, and have not ended
        self._thread = threading.Thread(target=self._serve, name="response-store", daemon=True)
        self._thread.start()

    async def run(
        self,
        work: Callable[[ResponseStore], Result],
        undo: Callable[[ResponseStore, Result], object] | None = None,
        *,
        is_repeatable: bool = False,
    ) -> Result:
        """Return the result of `work`. Raise what it raises, and StoreFailed if the store does not answer in time.

        A call that was given up before it began is never made. If it ends later, `undo` follows it, with its result. If
        it `is_repeatable`, it is not undone when its caller was cancelled: another process may have repeated it.
        """
        if self._overdue:
            raise StoreFailed("the store of responses does not answer")
        job = _Job(work, undo)
        self._jobs.put(job)
        try:
            await asyncio.wait([job.future], timeout=self._timeout_s)
        except asyncio.CancelledError:
            if is_repeatable:
                job.undo = None
            job.abandon()
            job.future.cancel()
            raise
        if not job.future.done() and job.abandon():
            self._overdue.add(job)
            job.on_end = self._overdue.discard
            raise StoreFailed(f"the store of responses did not answer within {self._timeout_s:g} s")
        result: Result = await job.future
        return result

    async def run_steps(self, work: Callable[[ResponseStore], Iterator[Result]]) -> Result:
        """Make the steps of `work`, with other calls in between, and return the last result. Raise like `run`."""
        steps = await self.run(work)
        result: Result = await self.run(lambda _: next(steps))
        while (following := await self.run(lambda _: next(steps, None))) is not None:
            result = following
        return result

    async def put(self, record: ResponseRecord, *, is_repeatable: bool = False) -> None:
        """Store a record, dated by the store. Raise StoreLimit, or StoreFailed, after which it is not stored.

        `is_repeatable` is that of `run`.
        """

        def undo(store: ResponseStore, _: None) -> None:
            store.delete(record.owner, record.id)
            if record.addition is not None:
                _take_away(store, record.owner, record.addition)

        def put(store: ResponseStore) -> None:
            store.put(replace(record, created_ns=store.now_ns()))

        await self.run(put, undo, is_repeatable=is_repeatable)

    async def add(self, owner: str, addition: Addition, *, is_repeatable: bool = False) -> bool:
        """Add items to a conversation, like `ConversationStore.add`. If it raises, they are not added.

        `is_repeatable` is that of `run`.
        """
        return await self.run(
            lambda store: store.conversations.add(owner, addition),
            lambda store, _: _take_away(store, owner, addition),
            is_repeatable=is_repeatable,
        )

    async def purge_regularly(self) -> None:
        """Delete expired records, now and every ten minutes, until this is cancelled."""
        while True:
            try:
                num_purged = await self._purge()
            except StoreFailed as error:
                _log.warning("expired responses could not be deleted: %s", error)
            else:
                if num_purged:
                    _log.info("deleted expired responses", extra={"fields": {"count": num_purged}})
            await asyncio.sleep(_PURGE_INTERVAL_S)

    async def _purge(self) -> int:
        """Delete expired records in steps, with other calls in between, and return their number."""
        steps = await self.run(lambda store: store.purge_steps())
        num_purged = 0
        while (num_deleted := await self.run(lambda _: next(steps, None))) is not None:
            num_purged += num_deleted
        return num_purged

    async def close(self) -> None:
        """Finish pending calls and close the store. A store that hangs is given up after the time limit."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join, self._timeout_s)

    def _serve(self) -> None:
        """Run jobs until the end."""
        while (job := self._jobs.get()) is not None:
            job.run(self._opened)
        if self._store is not None:
            self._store.close()

    def _opened(self) -> ResponseStore:
        """Return the store. Raise StoreFailed if it can't be opened."""
        if self._store is None:
            self._store = self._open_store()
            _log.info("the store of responses is usable again")
        return self._store


def _take_away(store: ResponseStore, owner: str, addition: Addition) -> None:
    """Delete items that were added to a conversation."""
    for item in addition.items:
        store.conversations.delete_item(owner, addition.conversation_id, item.id)


class _Job:
    """One call. Exactly one side decides its outcome: the thread by ending it in time, or the loop by giving it up."""

    def __init__(self, work: _Work, undo: _Undo | None) -> None:
        self._work = work
        self.undo = undo
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._is_decided = False
        self._is_abandoned = False
        self.future: asyncio.Future[Any] = self._loop.create_future()
        self.on_end: Callable[[_Job], None] = lambda _: None

    def abandon(self) -> bool:
        """Give the call up, and return True, unless its outcome is known already."""
        with self._lock:
            if self._is_decided:
                return False
            self._is_decided = self._is_abandoned = True
            return True

    def run(self, opened: Callable[[], ResponseStore]) -> None:
        """Make the call on the store's thread. `opened` returns the store, or raises StoreFailed."""
        result, error = None, None
        if not self._is_abandoned:
            try:
                store = opened()
                result = self._work(store)
            except Exception as raised:  # noqa: BLE001  it is raised on the loop's side
                error = raised
            with self._lock:
                self._is_decided = True
            if self._is_abandoned and error is None and (undo := self.undo) is not None:
                self._take_back(undo, store, result)
        self._on_loop(lambda: self._end(result, error))

    def _take_back(self, undo: _Undo, store: ResponseStore, result: Any) -> None:
        """Undo a call that ended after it was given up."""
        try:
            undo(store, result)
        except Exception:  # noqa: BLE001  nothing waits for the outcome
            _log.exception("a late change of the store of responses could not be undone")

    def _end(self, result: Any, error: Exception | None) -> None:
        """Report the outcome, on the loop's thread."""
        self.on_end(self)
        if self._is_abandoned or self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)

    def _on_loop(self, function: Callable[[], None]) -> None:
        """Call a function on the loop's thread, unless the loop has ended."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop is closed, and nothing waits for the outcome
            return

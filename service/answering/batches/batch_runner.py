"""Answer the lines of batches: claim, answer, renew the leases, and store the results."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sluice.v1 import error_pb2

from service.answering.background.caller_snapshot import to_caller
from service.answering.background.claimed_tasks import ClaimedTasks
from service.answering.background.job_generation import MAX_CLAIMS, TEMPORARY, check_claims
from service.answering.batches.line_answers import LineAnswers, method_of
from service.calls.call import Call, enter_call
from service.contract.batches.batch import Line, error_bytes
from service.generation.errors import EngineFailed, ServiceError
from service.observability.store_metrics import BatchMetrics
from service.storage.responses import batch_port
from service.storage.responses.batch_port import LineKey, LineResult, LineState
from service.storage.responses.port import StoreFailed
from service.storage.responses.store_thread import StoreThread

_RETRY_S: Final = 1.0  # after a failure of the store
_RENEWALS: Final = 3  # in the time of a lease
_FULL: Final = error_bytes(
    error_pb2.ERROR_REASON_LIMIT_EXCEEDED,
    "the answer does not fit into the limit batches.max_bytes_per_key or batches.max_bytes",
)

_log = logging.getLogger(__name__)


class BatchRunner:
    """Answers up to `max_running` lines at the same time. Used on the event loop's thread only."""

    def __init__(
        self,
        store: StoreThread,
        answers: LineAnswers,
        describe: Callable[[Exception], bytes],
        metrics: BatchMetrics,
        *,
        max_running: int,
        lease_s: float,
    ) -> None:
        """`lease_s` is the time after which another process continues the lines of one that has died.

        `describe` returns an error in the form in which it is stored.
        """
        self._store = store
        self._answers = answers
        self._describe = describe
        self._metrics = metrics
        self._max_running = max_running
        self._lease_s = lease_s
        self._holder = uuid.uuid4().hex
        self._wakeup = asyncio.Event()
        self._claimed: deque[batch_port.Line] = deque()
        self._tasks = ClaimedTasks[LineKey]()
        self._results: list[LineResult] = []
        self._has_results = asyncio.Event()
        self._is_closed = False

    def wake(self) -> None:
        """Claim new lines at once, if there is capacity."""
        self._wakeup.set()

    def abandon(self, batch: tuple[str, str]) -> None:
        """Stop answering the lines of a batch that was cancelled or deleted."""
        for key, task in self._tasks.items():
            if key[:2] == batch:
                task.cancel()
        self._claimed = deque(line for line in self._claimed if line.key[:2] != batch)

    async def run(self) -> None:
        """Answer lines until this is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renew())
            group.create_task(self._write())
            while True:
                self._wakeup.clear()
                while self._claimed and len(self._tasks) < self._max_running and not self._is_closed:
                    line = self._claimed.popleft()
                    if await self._tasks.may_begin(line.key):
                        if self._is_closed:
                            await self._release(line.key, 0.0, is_counted=False)
                        else:
                            self._tasks.begin(line.key, self._serve(line), self.wake)
                if not self._is_closed and len(self._claimed) <= self._max_running // 4 and await self._claim():
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._lease_s / _RENEWALS):
                        await self._wakeup.wait()

    async def close(self) -> None:
        """Stop answering, store the results so far, and release all lines, so that another process continues them."""
        self._is_closed = True
        unfinished = [*self._tasks, *(line.key for line in self._claimed)]
        self._claimed.clear()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(StoreFailed):
            await self._store_results(list(self._results))  # `_write` may remove some meanwhile
        for key in unfinished:
            await self._release(key, 0.0, is_counted=False)

    async def _serve(self, claimed: batch_port.Line) -> None:
        """Answer a line, and add its result to those to store, or release it."""
        line = Line.FromString(claimed.request)
        try:
            check_claims(claimed.num_claims)
            caller = replace(to_caller(claimed.caller), is_batch=True)
            enter_call(Call(method_of(line), uuid.uuid4().hex, caller=caller))
            state, result = LineState.SUCCEEDED, await self._answers.answer(claimed.key, line)
        except Exception as error:  # noqa: BLE001  the client finds it in the result
            if isinstance(error, TEMPORARY) and claimed.num_claims <= MAX_CLAIMS:
                _log.info("a batch request is delayed: %s", error)
                self._tasks.mark_releasing(claimed.key)
                await self._release(claimed.key, error.retry_after_s, is_counted=isinstance(error, EngineFailed))
                return
            if not isinstance(error, ServiceError):
                _log.exception("unexpected error of a batch request")
            state, result = LineState.FAILED, self._describe(error)
        self._metrics.on_line(is_success=state == LineState.SUCCEEDED)
        self._results.append(LineResult(claimed.key, state, result, _FULL))
        self._claimed = deque(line for line in self._claimed if line.key != claimed.key)  # again, after its lease ended
        self._has_results.set()

    async def _write(self) -> None:
        """Store results, those that arrive during a transaction in the next one, until this is cancelled."""
        while True:
            await self._has_results.wait()
            self._has_results.clear()
            results = list(self._results)
            try:
                await self._store_results(results)
            except StoreFailed as error:
                _log.warning("results of batches can't be stored yet: %s", error)
                await asyncio.sleep(_RETRY_S)
                self._has_results.set()
            else:
                del self._results[: len(results)]

    async def _store_results(self, results: list[LineResult]) -> None:
        if results:
            await self._store.run(lambda store: store.batches.finish(self._holder, results))

    async def _claim(self) -> bool:
        """Claim lines, and return whether there were any."""
        try:
            lines = await self._store.run(
                lambda store: store.batches.claim(self._holder, self._lease_s, self._max_running // 2 + 1)
            )
        except StoreFailed as error:
            _log.warning("batch requests can't be answered now: %s", error)
            return False
        if self._is_closed:
            for line in lines:
                await self._release(line.key, 0.0, is_counted=False)
            return False
        # Leases may have ended meanwhile, also of lines whose results are still to be stored.
        known = {line.key for line in self._claimed} | {each.key for each in self._results}
        self._claimed.extend(line for line in lines if line.key not in known)
        return bool(lines)

    async def _release(self, key: LineKey, delay_s: float, *, is_counted: bool) -> None:
        """Let any process claim a line after a delay; if the store fails, they can when the lease ends."""
        with contextlib.suppress(StoreFailed):
            await self._store.run(
                lambda store: store.batches.release(self._holder, key, delay_s, is_counted=is_counted)
            )

    async def _renew(self) -> None:
        """Renew the leases, stop lines that are no longer this process's, and end batches whose time has passed."""
        while True:
            await asyncio.sleep(self._lease_s / _RENEWALS)
            with contextlib.suppress(StoreFailed):
                if await self._store.run(lambda store: store.batches.expire()):
                    self.wake()
                if not self._tasks and not self._claimed:
                    continue
                before = set(self._tasks)
                held = await self._store.run(lambda store: store.batches.renew(self._holder, self._lease_s))
                for key in before.difference(held):
                    if key in self._tasks:
                        self._tasks[key].cancel()
                self._claimed = deque(line for line in self._claimed if line.key in held)

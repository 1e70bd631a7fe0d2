"""Generate the jobs of a store: claim, generate, renew the leases, and store the results."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Final, TypeAlias

from sluice.v1 import error_pb2, response_pb2

from service.answering.background.caller_snapshot import to_caller
from service.answering.background.claimed_tasks import ClaimedTasks
from service.answering.background.job_generation import MAX_CLAIMS, TEMPORARY, generate
from service.answering.background.live_events import LiveEvents
from service.answering.generation import Answering
from service.answering.stored_responses import StoredResponses
from service.calls.call import Call, enter_call
from service.contract.responses.background import NUM_OPENING, Response, failed, packed, terminal
from service.contract.responses.conversation import addition_of
from service.contract.responses.stored_response import with_response
from service.generation.errors import EngineFailed, ServiceError
from service.storage.responses.port import Job, JobKey, ResponseStore, StoreFailed, StoreLimit
from service.storage.responses.store_thread import StoreThread

_METHOD: Final = "sluice.v1.ResponseService/StreamResponse"
_RETRY_S: Final = 1.0  # after a failure of the store
_RENEWALS: Final = 3  # in the time of a lease
_LOOK_S: Final = 1.0  # between looks at a job of another process

_log = logging.getLogger(__name__)

Describe: TypeAlias = Callable[[Exception], tuple[error_pb2.ErrorReason, str]]
"""Return the reason and the public text of an error."""


class JobRunner:
    """Generates up to `max_running` jobs at the same time. Used on the event loop's thread only."""

    def __init__(
        self,
        store: StoreThread,
        answering: Answering,
        stored: StoredResponses,
        describe: Describe,
        *,
        max_running: int,
        lease_s: float,
    ) -> None:
        """`lease_s` is the time after which another process continues the jobs of one that has died."""
        self._store = store
        self._answering = answering
        self._stored = stored
        self._describe = describe
        self._max_running = max_running
        self._lease_s = lease_s
        self._holder = uuid.uuid4().hex
        self._wakeup = asyncio.Event()
        self._changed = asyncio.Event()
        self._live: dict[JobKey, LiveEvents] = {}
        self._tasks = ClaimedTasks[JobKey]()
        self.is_closed = False

    def live(self, key: JobKey) -> LiveEvents | None:
        """Return the events of a job that is being generated here."""
        return self._live.get(key)

    async def until_changed(self) -> None:
        """Return when a job has begun or ended here, or when another process may have ended one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await self._changed.wait()

    def wake(self) -> None:
        """Claim a new job at once, if there is capacity."""
        self._wakeup.set()

    def abandon(self, key: JobKey) -> None:
        """Stop generating a job that is no longer in the store, or not this process's."""
        if (task := self._tasks.get(key)) is not None:
            task.cancel()

    @contextlib.asynccontextmanager
    async def stopped(self, key: JobKey) -> AsyncIterator[Sequence[bytes]]:
        """Stop generating a job for the block, which may end it, and return its serialized events.

        None are returned if it isn't generated here. A job that was not ended is continued.
        """
        live, task = self._live.get(key), self._tasks.get(key)
        if live is None or task is None:
            yield ()
            return
        task.cancel()
        await asyncio.wait([task])
        try:
            yield live.serialized
        finally:
            await self._release(key, 0.0, is_counted=False)
            self._notify()
            self.wake()

    async def run(self) -> None:
        """Generate jobs until this is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renew())
            while True:
                self._wakeup.clear()
                has_capacity = len(self._tasks) < self._max_running and not self.is_closed
                job = await self._claim() if has_capacity else None
                if job is not None:
                    if await self._tasks.may_begin(job.key):
                        if self.is_closed:
                            await self._release(job.key, 0.0, is_counted=False)
                        else:
                            self._begin(job)
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._lease_s / _RENEWALS):
                        await self._wakeup.wait()

    async def close(self) -> None:
        """Stop generating, and release all jobs, so that another process continues them at once."""
        self.is_closed = True
        self._notify()
        running = dict(self._tasks)
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)
        for key in running:
            await self._release(key, 0.0, is_counted=False)

    def _begin(self, job: Job) -> None:
        """Generate a job in a task."""
        self._live[job.key] = LiveEvents()
        self._notify()

        def end() -> None:
            self._live.pop(job.key).close()
            self._notify()
            self.wake()

        self._tasks.begin(job.key, self._serve(job, self._live[job.key]), end)

    def _notify(self) -> None:
        """Continue all that wait in `until_changed`."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _serve(self, job: Job, live: LiveEvents) -> None:
        """Generate a job, and store its result or release it."""
        response = Response.FromString(job.record.response)
        try:
            enter_call(Call(_METHOD, uuid.uuid4().hex, caller=to_caller(job.caller)))
            ended = await generate(job, self._answering, self._stored, live, lambda begun: self._mark(job, begun))
        except Exception as error:  # noqa: BLE001  the client finds it in the response
            if isinstance(error, TEMPORARY) and job.num_claims <= MAX_CLAIMS:
                _log.info("a background response is delayed: %s", error)
                self._tasks.mark_releasing(job.key)
                await self._release(job.key, error.retry_after_s, is_counted=isinstance(error, EngineFailed))
                return
            if not isinstance(error, ServiceError):
                _log.exception("unexpected error of a background response")
            ended = failed(response, *self._describe(error))
        await self._finish(job, live, ended)

    async def _finish(self, job: Job, live: LiveEvents, ended: Response) -> None:
        """Store the final response, then send it to the clients that follow it."""
        kept = live.serialized
        request = response_pb2.CreateResponseRequest.FromString(job.record.request)
        while True:
            last = terminal(ended, len(live.serialized))
            events, addition = [*kept, last.SerializeToString()], addition_of(request, ended)

            def finish(store: ResponseStore) -> bool:
                # Events are packed on the store's thread: those of a long response would block the event loop.
                record = with_response(job.record, ended, packed(events), addition)  # noqa: B023  awaited below
                return store.jobs.finish(record, self._holder)

            try:
                is_stored = await self._store.run(finish)
            except StoreLimit as limit:
                queued = Response.FromString(job.record.response)
                ended, kept = (
                    failed(queued, error_pb2.ERROR_REASON_LIMIT_EXCEEDED, str(limit)),
                    live.serialized[:NUM_OPENING],
                )
            except StoreFailed as error:
                _log.warning("a background response can't be stored yet: %s", error)
                await asyncio.sleep(_RETRY_S)
            else:
                if is_stored:
                    live.put(last)
                return

    async def _mark(self, job: Job, begun: Response) -> None:
        """Store that the generation has begun."""
        record = with_response(job.record, begun)
        with contextlib.suppress(StoreFailed, StoreLimit):
            if not await self._store.run(lambda store: store.jobs.update(record, self._holder)):
                self.abandon(job.key)  # it was cancelled, deleted or claimed by another process

    async def _claim(self) -> Job | None:
        """Return the next job, or None if there is none or the store fails."""
        try:
            return await self._store.run(lambda store: store.jobs.claim(self._holder, self._lease_s))
        except StoreFailed as error:
            _log.warning("background responses can't be generated now: %s", error)
            return None

    async def _release(self, key: JobKey, delay_s: float, *, is_counted: bool) -> None:
        """Let any process claim a job after a delay; if the store fails, they can when the lease ends."""
        with contextlib.suppress(StoreFailed):
            await self._store.run(lambda store: store.jobs.release(self._holder, key, delay_s, is_counted=is_counted))

    async def _renew(self) -> None:
        """Renew the leases, and stop jobs that were cancelled, deleted or claimed by others."""
        while True:
            await asyncio.sleep(self._lease_s / _RENEWALS)
            if self._tasks:
                await self._renew_all(set(self._tasks))

    async def _renew_all(self, running: Collection[JobKey]) -> None:
        """Renew the leases of these jobs. If the store fails, others may continue them; nothing is stored twice."""
        with contextlib.suppress(StoreFailed):
            held = await self._store.run(lambda store: store.jobs.renew(self._holder, running, self._lease_s))
            for key in set(running).difference(held):
                self.abandon(key)

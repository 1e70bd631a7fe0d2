"""Responses in the background, for their clients: create one, follow its events, cancel it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from sluice.v1 import response_pb2, stored_response_pb2

from service.answering.background.caller_snapshot import to_bytes
from service.answering.background.job_runner import JobRunner
from service.answering.errors import ResponseNotFound, StoreFull, StoreUnavailable, TooManyInBackground
from service.answering.generation import Answering
from service.answering.kind import continuing
from service.answering.repeatable_response import response_id_of
from service.answering.stored_responses import StoredResponses
from service.calls.call import Timed, current_caller, deadline_of
from service.contract.responses.background import (
    IN_PROGRESS,
    UNFINISHED,
    Event,
    Response,
    cancelled,
    events_after,
    is_terminal,
    opening,
    packed,
    terminal,
)
from service.contract.responses.stored_response import to_record, with_response
from service.generation.errors import EngineClosed, InvalidRequest
from service.observability.store_metrics import StoreMetrics
from service.storage.responses.port import Job, JobKey, ResponseRecord, StoreFailed, StoreLimit, TooManyJobs
from service.storage.responses.store_thread import StoreThread

# The number of the terminal event of a response that another process generates when it is cancelled: greater than those
# of the events which that process has sent.
_LAST: Final = 1 << 40

_log = logging.getLogger(__name__)


class BackgroundResponses:
    """The responses in the background of callers. `runner` generates them."""

    def __init__(
        self,
        store: StoreThread,
        runner: JobRunner,
        answering: Answering,
        stored: StoredResponses,
        *,
        max_unfinished: int,
        metrics: StoreMetrics,
    ) -> None:
        """`max_unfinished` limits the unfinished responses of a caller."""
        self._metrics = metrics
        self._store = store
        self._runner = runner
        self._answering = answering
        self._stored = stored
        self._max_unfinished = max_unfinished

    async def create(self, request: response_pb2.CreateResponseRequest, context: Timed) -> Response:
        """Store a request that passes all checks of `Answering.stream`, and return the queued response.

        Raise their errors, TooManyInBackground, StoreFull or StoreUnavailable.
        """
        caller = current_caller()
        separated = response_pb2.CreateResponseRequest()
        separated.CopyFrom(await self._stored.with_items(request))
        separated.serving.separate_tokens = True  # so that the events don't depend on the time
        if request.conversation and not request.HasField("conversation_until"):
            separated.conversation_until = await self._stored.last_item(request.conversation)  # others may add more
        kind = continuing(await self._stored.history(separated))
        answer_id = request.response_id or _answer_id(caller.id, request.serving.request_id)
        stream, begin = await self._answering.plan(kind, separated, deadline_of(context), answer_id)
        response = opening(begin[0].created.response)[0].created.response
        job = Job(to_record(caller.id, separated, response), to_bytes(caller), stream)
        try:
            existing = await self._store.run(
                lambda store: store.jobs.add(job.dated(store.now_ns()), self._max_unfinished),
                lambda store, existing: existing is None and store.delete(*job.key),
            )
        except TooManyJobs as limit:
            self._metrics.on_rejected()
            raise TooManyInBackground(str(limit), self._max_unfinished) from limit
        except StoreLimit as limit:
            self._metrics.on_rejected()
            raise StoreFull.of(limit) from limit
        except StoreFailed as error:
            self._metrics.on_failed()
            raise _unavailable(error) from error
        self._runner.wake()
        if existing is None:
            self._metrics.on_stored()
            return response
        if _given(existing.request) != _given(job.record.request):
            raise InvalidRequest("serving.request_id", "is the id of another request")
        return Response.FromString(existing.response)

    async def follow(self, response_id: str, after: int = -1) -> AsyncGenerator[Event, None]:
        """Yield the events of a response after the one with that number, up to the terminal one.

        Raise ResponseNotFound, StoreUnavailable, InvalidRequest if the response isn't in the background, or
        EngineClosed if the service stops.
        """
        client_data = None
        async with aclosing(self._events((current_caller().id, response_id), after)) as events:
            async for event in events:
                if client_data is None:
                    client_data = event.client_data = (await self._record(response_id)).client_data
                yield event

    async def cancel(self, response_id: str) -> stored_response_pb2.CancelResponseResponse:
        """Stop a response, and return it in its final state. Raise the errors of `follow`."""
        record = await self._record(response_id)
        response = Response.FromString(record.response)
        if response.status in UNFINISHED:
            async with self._runner.stopped((record.owner, record.id)) as serialized:
                known = serialized or [event.SerializeToString() for event in opening(response)]
                ended = cancelled(response)
                is_elsewhere = not serialized and response.status == IN_PROGRESS
                last = terminal(ended, _LAST if is_elsewhere else len(known)).SerializeToString()
                await self._finish(record, ended, [*known, last])
            response = Response.FromString((await self._record(response_id)).response)  # it may have ended before
        return stored_response_pb2.CancelResponseResponse(response=response, client_data=record.client_data)

    def stop(self, response_id: str) -> None:
        """Stop generating a response that the caller has deleted."""
        self._runner.abandon((current_caller().id, response_id))

    async def _events(self, key: JobKey, after: int) -> AsyncGenerator[Event, None]:
        """Yield the events of a response, from this process while it generates it, else from the store."""
        number = after
        while True:
            if (live := self._runner.live(key)) is not None:
                async with aclosing(live.after(number)) as events:
                    async for event in events:
                        number = event.sequence_number
                        yield event
                        if is_terminal(event):
                            return
            record = await self._record(key[1])
            response = Response.FromString(record.response)
            if response.status not in UNFINISHED:
                for event in events_after(record.events, number):
                    yield event
                return
            if self._runner.is_closed:
                raise EngineClosed("the service is shutting down")
            for event in opening(response)[number + 1 :]:
                number = event.sequence_number
                yield event
            await self._runner.until_changed()

    async def _record(self, response_id: str) -> ResponseRecord:
        """Return a record of the caller that is in the background. Raise the errors of `follow`."""
        owner = current_caller().id
        try:
            record = await self._store.run(lambda store: store.get(owner, response_id))
        except StoreFailed as error:
            raise _unavailable(error) from error
        if record is None:
            raise ResponseNotFound("id")
        if not Response.FromString(record.response).background:
            raise InvalidRequest("id", "the response was not created with background: true")
        return record

    async def _finish(self, record: ResponseRecord, ended: Response, events: Sequence[bytes]) -> None:
        """End a job, unless it has ended. Raise StoreUnavailable."""
        try:
            await self._store.run(lambda store: store.jobs.finish(with_response(record, ended, packed(events))))
        except (StoreFailed, StoreLimit) as error:
            raise _unavailable(error) from error


def _answer_id(owner: str, request_id: str) -> str:
    """Return the id of an answer: the same for the same id of a request of the same owner."""
    if not request_id:
        return uuid.uuid4().hex
    return response_id_of(owner, request_id)


def _given(stored: bytes) -> response_pb2.CreateResponseRequest:
    """Return a stored request without what depends on the time."""
    request = response_pb2.CreateResponseRequest.FromString(stored)
    request.ClearField("conversation_until")
    return request


def _unavailable(error: Exception) -> StoreUnavailable:
    _log.warning("the store of responses failed: %s", error)
    return StoreUnavailable()

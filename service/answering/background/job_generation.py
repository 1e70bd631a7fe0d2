"""Generate one job: its events, and its final response."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final

from sluice.v1 import response_pb2

from service.answering.background.live_events import LiveEvents
from service.answering.errors import StoreUnavailable
from service.answering.generation import Answering
from service.answering.kind import continuing
from service.answering.stored_responses import StoredResponses
from service.contract.parts.resume import from_the_beginning
from service.contract.responses.background import NUM_OPENING, Response, opening
from service.generation.errors import AdapterLost, EngineClosed, EngineFailed, RetryLater
from service.quota.errors import LimitReached, QuotaUnavailable
from service.registry.errors import ChangesUnavailable, EndpointsUnavailable, ModelNotLoaded
from service.storage.responses.port import Job

# Errors after which the same request may succeed later.
TEMPORARY: Final = (
    RetryLater, EngineClosed, EngineFailed, AdapterLost, ModelNotLoaded, ChangesUnavailable, EndpointsUnavailable,
    LimitReached, QuotaUnavailable, StoreUnavailable,
)  # fmt: skip

MAX_CLAIMS: Final = 16  # of work whose holders die: it may be what they die of

_log = logging.getLogger(__name__)


class _NoDeadline:
    """The context of a call that may take any time."""

    def time_remaining(self) -> float | None:
        """Return None."""
        return None


def check_claims(num_claims: int) -> None:
    """Raise EngineFailed if work was begun so often without an end that the processes may die of it."""
    if num_claims > MAX_CLAIMS:
        _log.error("work of a batch or in the background has failed: it was begun %d times", MAX_CLAIMS)
        raise EngineFailed("the processes that began it have died")


async def generate(
    job: Job,
    answering: Answering,
    stored: StoredResponses,
    live: LiveEvents,
    on_begin: Callable[[Response], Awaitable[None]],
) -> Response:
    """Put the events of a job into `live`, except the terminal one, and return the response that has ended.

    Every run of a job has the same events with the same numbers, since each token is a separate output. `on_begin` is
    awaited with the response when its generation begins. Raise the errors of the call, some of which are TEMPORARY.
    """
    for event in opening(Response.FromString(job.record.response)):
        live.put(event)
    check_claims(job.num_claims)
    request = response_pb2.CreateResponseRequest.FromString(job.record.request)
    request.resume.CopyFrom(from_the_beginning(job.stream))
    kind = continuing(await stored.history(request))
    async with aclosing(answering.stream(kind, request, _NoDeadline())) as events:
        async for event in events:
            match event.WhichOneof("event"):
                case "created" | "usage":
                    continue
                case "completed":
                    return event.completed.response
                case "incomplete":
                    return event.incomplete.response
                case "in_progress":
                    await on_begin(event.in_progress.response)
            event.sequence_number += NUM_OPENING - 1  # instead of `created`
            for name in ("stream", "position"):  # it is resumed by the event's number
                event.ClearField(name)
            live.put(event)
    raise EngineFailed("the answer ended without its terminal event")

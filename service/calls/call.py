"""The current call, as every layer of the service sees it.

The outermost policies create one record per call in a context variable. Each RPC runs in its own task, so a record is
never visible to another call. Used on the event loop's thread only.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from service.generation.caller import ANONYMOUS, Caller

COST = "x-sluice-cost"  # `true` requests the cost of a call; also the name of the trailer with the cost
IN_FLIGHT_LIMIT = "x-sluice-limit"  # the response metadata in which Envoy finds the limit of requests in flight
DEADLINE_SLACK_S = 0.05  # gRPC may cancel a call slightly before its deadline


@dataclass(slots=True)
class Call:
    """One RPC. `method` is "package.Service/Method"; `fields` are additional fields of its log line."""

    method: str
    request_id: str
    fields: dict[str, str | float] = field(default_factory=dict)
    caller: Caller = ANONYMOUS
    endpoint: str = ""  # the name by which its model was requested; a model is its own endpoint
    entity: str = ""
    reason: str = ""  # of its error, as in ErrorInfo
    rate_limits: tuple[tuple[str, str], ...] = ()  # response metadata with the caller's limits
    wants_cost: bool = False  # whether the client requests the cost
    cost: str = ""  # as text, once known
    report_load: Callable[[], tuple[tuple[str, str | bytes], ...]] = tuple  # returns trailers with the load
    in_flight_limit: Callable[[], str] = str  # returns the present limit as text, for Envoy
    has_sent_metadata: bool = False  # whether the initial metadata are sent already
    waited_s: float | None = None  # between its arrival and its first interceptor; None if unknown

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The response metadata: initial with the first message, or trailing with an error."""
        limit = ((IN_FLIGHT_LIMIT, text),) if (text := self.in_flight_limit()) else ()
        return (("x-request-id", self.request_id), *self.rate_limits, *limit, *self._reported_cost)

    @property
    def trailers(self) -> tuple[tuple[str, str | bytes], ...]:
        """The trailing metadata of a successful call."""
        return (*self._reported_cost, *self.report_load())

    @property
    def _reported_cost(self) -> tuple[tuple[str, str], ...]:
        """Return the trailer with the cost, if the client requests it."""
        return ((COST, self.cost),) if self.wants_cost and self.cost else ()

    def add_log_fields(self, facts: Mapping[str, str | float]) -> None:
        """Add fields to the call's log line. They must not contain client data other than a model's name."""
        self.fields.update(facts)


class Timed(Protocol):
    """The part of gRPC's context that knows the remaining time."""

    def time_remaining(self) -> float | None:
        """Return the seconds until the deadline; None if there is none."""


_current: ContextVar[Call | None] = ContextVar("call", default=None)


def current_call() -> Call | None:
    """Return the call that this task serves; None outside of calls."""
    return _current.get()


def current_request_id() -> str:
    """Return the id of the call that this task serves; outside of calls, a new id."""
    return call.request_id if (call := current_call()) else uuid.uuid4().hex


def current_caller() -> Caller:
    """Return the caller of the current call; outside of calls, the anonymous caller."""
    return call.caller if (call := current_call()) else ANONYMOUS


def current_wait_s() -> float | None:
    """Return the time that the current call waited in gRPC's queue, in seconds; None if unknown."""
    return call.waited_s if (call := current_call()) else None


def deadline_of(context: Timed) -> float | None:
    """Return the deadline of a call as an instant of `time.monotonic()`; None if it has none."""
    remaining_s = context.time_remaining()
    return None if remaining_s is None else time.monotonic() + remaining_s


def route_call(endpoint: str, entity: str) -> None:
    """Set the endpoint and entity to which the current call, if any, was routed."""
    if (call := current_call()) is not None:
        call.endpoint, call.entity = endpoint, entity


def enter_call(call: Call) -> None:
    """Make `call` the current one for the rest of this task."""
    _current.set(call)

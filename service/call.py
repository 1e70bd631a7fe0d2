"""The current call, as every layer of the service sees it.

Owns one record a call, made by the outermost policies and found by those beneath through a context variable: each RPC
runs in a task of its own, so the record never leaks into another call. Only the loop's thread touches it. It knows
nothing of what a call does.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from service.generation.caller import ANONYMOUS, Caller

COST = "x-sluice-cost"  # asks for what a call has cost, if it is `true`, and tells it
DEADLINE_SLACK_S = 0.05  # gRPC cancels a call at its deadline, now and then a little before


@dataclass(slots=True)
class Call:
    """One RPC. `method` is fully qualified without a leading slash; `fields` are what its log line tells besides."""

    method: str
    request_id: str
    fields: dict[str, str | float] = field(default_factory=dict)
    caller: Caller = ANONYMOUS
    endpoint: str = ""  # the name that its model was found by, and the entity behind it; a model is its own endpoint
    entity: str = ""
    reason: str = ""  # why it is refused or fails, as its ErrorInfo has it
    rate_limits: tuple[tuple[str, str], ...] = ()  # where the caller stands with its limits
    wants_cost: bool = False  # whether the caller asks to be told what the call has cost
    cost: str = ""  # as it is told, once it is known
    report_load: Callable[[], tuple[tuple[str, str | bytes], ...]] = tuple  # to be told how busy the service is then
    waited_s: float | None = None  # from its arrival until this process came to look at it, if that is known

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes back to the caller: as initial metadata with a message, as trailing metadata with an error."""
        return (("x-request-id", self.request_id), *self.rate_limits, *self._reported_cost)

    @property
    def trailers(self) -> tuple[tuple[str, str | bytes], ...]:
        """What goes back after the last message."""
        return (*self._reported_cost, *self.report_load())

    @property
    def _reported_cost(self) -> tuple[tuple[str, str], ...]:
        return ((COST, self.cost),) if self.wants_cost and self.cost else ()

    def add_log_fields(self, facts: Mapping[str, str | float]) -> None:
        """Add `facts` to the call's log line. They must not hold anything that a caller wrote but a model's name."""
        self.fields.update(facts)


class Timed(Protocol):
    """What gRPC tells of a call's time."""

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None if there is none."""


_current: ContextVar[Call | None] = ContextVar("call", default=None)


def current_call() -> Call | None:
    """The call that this task serves; None outside of one."""
    return _current.get()


def current_request_id() -> str:
    """The id of the call that this task serves; outside of one, a new one."""
    return call.request_id if (call := current_call()) else uuid.uuid4().hex


def current_caller() -> Caller:
    """Who calls; outside of a call, a caller without a key."""
    return call.caller if (call := current_call()) else ANONYMOUS


def current_wait_s() -> float | None:
    """For how long the call that this task serves has waited to be looked at; None where that isn't known."""
    return call.waited_s if (call := current_call()) else None


def deadline_of(context: Timed) -> float | None:
    """The deadline of a call as an instant of `time.monotonic()`; None if it has none."""
    remaining_s = context.time_remaining()
    return None if remaining_s is None else time.monotonic() + remaining_s


def route_call(endpoint: str, entity: str) -> None:
    """Note what the current call was routed by, if there is one."""
    if (call := current_call()) is not None:
        call.endpoint, call.entity = endpoint, entity


def enter_call(call: Call) -> None:
    """Make `call` the current one for the rest of this task."""
    _current.set(call)

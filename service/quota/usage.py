"""The usage of each caller since the start of the service, by model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from service.quota.limit import Limit

_MAX_CALLERS: Final = 4096  # above this number, the least recent caller is evicted


@dataclass(slots=True)
class ModelUsage:
    """A caller's usage of one model."""

    num_requests: int = 0  # that used tokens
    num_input: int = 0  # tokens
    num_output: int = 0  # tokens
    num_rejected: int = 0  # requests


@dataclass(slots=True)
class CallerUsage:
    """A caller's usage since an instant of `time.time_ns()`, by model."""

    since_ns: int
    by_model: dict[str, ModelUsage] = field(default_factory=dict)

    def of(self, model: str) -> ModelUsage:
        """Return the record of a model, which is created if there is none."""
        return self.by_model.setdefault(model, ModelUsage())


@dataclass(frozen=True, slots=True)
class LimitState:
    """A limit and its remainder, which limits of single requests don't have.

    `reset_s` is the number of seconds until all of a limit per minute is left again.
    """

    limit: Limit
    num_left: int | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """A caller's usage, and the state of its limits."""

    used: CallerUsage
    limits: Sequence[LimitState]


class UsageRecords:
    """The usage of each caller by id. A caller that was evicted is counted from zero again."""

    def __init__(self, max_callers: int = _MAX_CALLERS, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._max_callers = max_callers
        self._clock_ns = clock_ns
        self._complete_since_ns = clock_ns()  # of callers without a record
        self._records: dict[str, CallerUsage] = {}  # the least recently used first

    def count(self, caller_id: str) -> CallerUsage:
        """Return the record of a caller for counting."""
        record = self._records.pop(caller_id, None) or CallerUsage(self._complete_since_ns)
        self._records[caller_id] = record
        if len(self._records) > self._max_callers:
            del self._records[next(iter(self._records))]
            self._complete_since_ns = self._clock_ns()
        return record

    def of(self, caller_id: str) -> CallerUsage:
        """Return the record of a caller for reading."""
        return self._records.get(caller_id) or CallerUsage(self._complete_since_ns)

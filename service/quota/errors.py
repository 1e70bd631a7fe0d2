"""Errors of requests that exceed a limit. `service.interceptors.errors` maps them to statuses."""
# ruff: noqa: N818 - a name says what happened; that it is an error is said where it is raised

from __future__ import annotations

import math
from typing import ClassVar

from service.generation.errors import InvalidRequest
from service.quota.limit import Limit, Measure

_WORDS = {
    Measure.REQUESTS: "requests a minute",
    Measure.INPUT_TOKENS: "input tokens a minute",
    Measure.OUTPUT_TOKENS: "output tokens a minute",
    Measure.CONCURRENT_REQUESTS: "requests at a time",
}


class QuotaError(Exception):
    """The root of what is over for the moment; its text may be shown to the caller. Retry after `retry_after_s`."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LimitReached(QuotaError):
    """As much as `limit` allows was used."""

    def __init__(self, message: str, limit: Limit, retry_after_s: float) -> None:
        super().__init__(message, retry_after_s)
        self.limit = limit


class RateLimited(LimitReached):
    """A limit a minute."""

    def __init__(self, limit: Limit, num_needed: int, num_left: int, retry_after_s: float) -> None:
        """`num_left` is what the limit has now, below zero if a request used more than was expected."""
        wait = f"try again in {_seconds(retry_after_s)}"
        text = f"the limit of {limit.owner} is {limit.value} {_WORDS[limit.measure]}"
        if limit.measure is not Measure.REQUESTS and limit.caller:
            text += f", of which {max(0, num_left)} are left now, and this request needs {num_needed}"
        super().__init__(f"{text}; {wait}", limit, retry_after_s)


class ConcurrencyLimited(LimitReached):
    """A limit of requests at a time."""

    def __init__(self, limit: Limit, retry_after_s: float) -> None:
        text = f"the limit of {limit.owner} is {limit.value} {_WORDS[limit.measure]}; try again when one has ended"
        super().__init__(text, limit, retry_after_s)


class QuotaUnavailable(QuotaError):
    """What counts the use of several replicas can't be reached, and the settings say to refuse then."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the use of this key can't be counted now", retry_after_s)


class LimitExceeded(InvalidRequest):
    """The request asks for more than a limit allows at any time: a retry never helps."""

    reason: ClassVar[str] = "LIMIT_EXCEEDED"

    def __init__(self, field: str, message: str, limit: Limit) -> None:
        super().__init__(field, message)
        self.args = (field, message, limit)
        self.limit = limit

    @classmethod
    def of_value(cls, field: str, value: int, limit: Limit) -> LimitExceeded:
        """A field's value is above a limit of its own."""
        return cls(field, f"must be at most {limit.value}, the limit of {limit.owner}, not {value}", limit)

    @classmethod
    def of_minute(cls, field: str, num_needed: int, limit: Limit) -> LimitExceeded:
        """A request needs more than comes in a minute."""
        needs = "a request" if limit.measure is Measure.REQUESTS else f"this request needs {num_needed}"
        text = f"{needs}, but the limit of {limit.owner} is {limit.value} {_WORDS[limit.measure]}"
        return cls(field, f"{text}: it can't be served at any time", limit)


def _seconds(seconds: float) -> str:
    """With as many digits as people read, and never too short."""
    return f"{math.ceil(round(seconds * 100, 3)) / 100:g} s"

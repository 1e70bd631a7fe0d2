"""Errors of requests that exceed a limit."""
# ruff: noqa: N818 - a name states the condition, without the suffix Error

from __future__ import annotations

import math
from collections.abc import Mapping

from service.generation.errors import InvalidRequest, ServiceError
from service.quota.limit import Limit, Measure

_NAMES = {
    Measure.REQUESTS: "requests a minute",
    Measure.INPUT_TOKENS: "input tokens a minute",
    Measure.OUTPUT_TOKENS: "output tokens a minute",
    Measure.CONCURRENT_REQUESTS: "requests at a time",
}


class QuotaError(ServiceError):
    """The root of rejections that pass with time. Retry after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LimitReached(QuotaError):
    """A caller, or all callers of a model, have used up `limit`."""

    def __init__(self, message: str, limit: Limit, retry_after_s: float) -> None:
        super().__init__(message, retry_after_s)
        self.limit = limit

    @property
    def values(self) -> Mapping[str, str]:
        return {"limit": str(self.limit.value), "quota_metric": self.limit.measure.value}


class RateLimited(LimitReached):
    """A limit per minute is used up."""

    def __init__(self, limit: Limit, num_needed: int, num_left: int, retry_after_s: float) -> None:
        """`num_left` is the rest of the limit, negative if a request used more than expected."""
        wait = f"try again in {_seconds(retry_after_s)}"
        text = f"the limit of {limit.owner} is {limit.value} {_NAMES[limit.measure]}"
        if limit.measure is not Measure.REQUESTS and limit.caller:
            text += f", of which {max(0, num_left)} are left now, and this request needs {num_needed}"
        super().__init__(f"{text}; {wait}", limit, retry_after_s)


class ConcurrencyLimited(LimitReached):
    """A limit of concurrent requests is used up."""

    def __init__(self, limit: Limit, retry_after_s: float) -> None:
        text = f"the limit of {limit.owner} is {limit.value} {_NAMES[limit.measure]}; try again when one has ended"
        super().__init__(text, limit, retry_after_s)


class QuotaUnavailable(QuotaError):
    """The store that counts usage can't be reached, and the settings say to reject requests in that case."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the use of this key can't be counted now", retry_after_s)


class LimitExceeded(InvalidRequest):
    """The request asks for more than a limit allows at any time: a retry never helps."""

    def __init__(self, field: str, message: str, limit: Limit) -> None:
        super().__init__(field, message)
        self.args = (field, message, limit)
        self.limit = limit

    @property
    def values(self) -> Mapping[str, str]:
        limits = {"limit": str(self.limit.value), "quota_metric": self.limit.measure.value}
        return {**super().values, **limits}

    @classmethod
    def of_value(cls, field: str, value: int, limit: Limit) -> LimitExceeded:
        """Return the error for a field whose value exceeds its limit."""
        return cls(field, f"must be at most {limit.value}, the limit of {limit.owner}, not {value}", limit)

    @classmethod
    def of_minute(cls, field: str, num_needed: int, limit: Limit) -> LimitExceeded:
        """Return the error for a request that needs more than a minute's allowance."""
        needs = "a request" if limit.measure is Measure.REQUESTS else f"this request needs {num_needed}"
        text = f"{needs}, but the limit of {limit.owner} is {limit.value} {_NAMES[limit.measure]}"
        return cls(field, f"{text}: it can't be served at any time", limit)


def _seconds(seconds: float) -> str:
    """Format a duration in hundredths of a second, rounded up."""
    return f"{math.ceil(round(seconds * 100, 3)) / 100:g} s"

"""Errors of calls that are rejected before anything is looked up or generated.

The one table that turns exceptions into statuses is `service.interceptors.errors`.
"""
# ruff: noqa: N818 - a name says what happened; that it is an error is said where it is raised

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ServiceError(Exception):
    """The root of these errors; its text may be shown to the caller."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule of the contract that a request breaks.

    `field` is a path of proto names such as `messages[0].role`, `rule` the rule's id. `value` is what the caller sent
    there, as text, if it is a plain one; it is for the caller only, never for logs.
    """

    field: str
    description: str
    rule: str
    value: str | None = None


class InvalidMessage(ServiceError):
    """A request breaks rules of the contract."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("; ".join(f"{v.field}: {v.description}" if v.field else v.description for v in violations))
        self.violations = tuple(violations)


class Starting(ServiceError):
    """The models are still being loaded. Retry after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the service is starting")
        self.retry_after_s = retry_after_s


class Draining(ServiceError):
    """The service is shutting down and takes no new calls. Retry, elsewhere, after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the service is shutting down")
        self.retry_after_s = retry_after_s


class TooManyCalls(ServiceError):
    """As many calls are being served as the service takes. Retry after `retry_after_s` seconds."""

    def __init__(self, max_concurrent_calls: int, retry_after_s: float) -> None:
        super().__init__(f"{max_concurrent_calls} calls are being served; that is the limit")
        self.max_concurrent_calls = max_concurrent_calls
        self.retry_after_s = retry_after_s


class ReaderStalled(ServiceError):
    """The caller took nothing of its stream for too long."""

    def __init__(self, stall_timeout_s: float) -> None:
        super().__init__(f"nothing of the stream was read for {stall_timeout_s:g} s")

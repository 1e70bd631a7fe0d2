"""Errors of calls that are rejected before any lookup or generation."""
# ruff: noqa: N818 - a name states the condition, without the suffix Error

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.generation.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule of the contract that a request violates.

    `field` is a path of proto names such as `messages[0].role`, `rule` the rule's id. `value` is the field's value as
    text if it is a scalar; it is returned to the client only and never logged.
    """

    field: str
    description: str
    rule: str
    value: str | None = None


class InvalidMessage(ServiceError):
    """A request violates rules of the contract."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("; ".join(f"{v.field}: {v.description}" if v.field else v.description for v in violations))
        self.violations = tuple(violations)

    @property
    def values(self) -> Mapping[str, str]:
        first = self.violations[0]
        return {"field": first.field} if first.value is None else {"field": first.field, "value": first.value}


class Starting(ServiceError):
    """The models are being loaded. Retry after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the service is starting")
        self.retry_after_s = retry_after_s


class Draining(ServiceError):
    """The service is shutting down and accepts no new calls. Retry on another replica after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the service is shutting down")
        self.retry_after_s = retry_after_s


class TooManyCalls(ServiceError):
    """The service serves its maximum number of concurrent calls. Retry after `retry_after_s` seconds."""

    def __init__(self, max_concurrent_calls: int, retry_after_s: float) -> None:
        super().__init__(f"{max_concurrent_calls} calls are being served; that is the limit")
        self.max_concurrent_calls = max_concurrent_calls
        self.retry_after_s = retry_after_s

    @property
    def values(self) -> Mapping[str, str]:
        return {"limit": str(self.max_concurrent_calls), "for_all": "true"}


class TooManyUploads(ServiceError):
    """The caller has too many large requests in progress. Retry after `retry_after_s` seconds."""

    def __init__(self, max_uploads: int, retry_after_s: float) -> None:
        super().__init__(f"the incomplete requests of this caller exceed the limit of currently {max_uploads}")
        self.max_uploads = max_uploads
        self.retry_after_s = retry_after_s

    @property
    def values(self) -> Mapping[str, str]:
        return {"limit": str(self.max_uploads)}


class ReaderStalled(ServiceError):
    """The client read nothing of its response for too long."""

    def __init__(self, waited_s: float) -> None:
        super().__init__(f"nothing of the response was read for {waited_s:.3g} s")

"""The limits of one request: the measure, the callers that share it, and its description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from urllib.parse import quote

from service.generation.caller import Caller, Limits
from service.quota.bucket import Bucket
from service.quota.store import Slots


class Measure(StrEnum):
    """The quantity that a limit counts; values are the names of the fields of `Limits`."""

    REQUESTS = "requests_per_minute"
    INPUT_TOKENS = "input_tokens_per_minute"
    OUTPUT_TOKENS = "output_tokens_per_minute"
    CONCURRENT_REQUESTS = "concurrent_requests"
    MAX_TOKENS = "max_tokens"
    MAX_N = "max_n"


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a caller, of a caller's use of a model, or of all callers' use of a model.

    Empty `caller` or `model` mean all callers or models; `model` may be a pattern whose models share the limit. With
    `of_batches`, it counts requests of batches only, and no other request counts for it.
    """

    measure: Measure
    value: int
    caller: str
    model: str
    of_batches: bool = False

    @property
    def name(self) -> str:
        """The key of the limit in the store."""
        name = f"{self.measure}/{quote(self.caller, safe='')}/{quote(self.model, safe='')}"
        return f"{name}/batches" if self.of_batches else name

    @property
    def bucket(self) -> Bucket:
        """The bucket of a limit per minute."""
        return Bucket(self.name, self.value)

    @property
    def slots(self) -> Slots:
        """The slots of a limit of concurrent requests."""
        return Slots(self.name, self.value)

    @property
    def subject(self) -> str:
        """The owner of the limit, for programs."""
        parts = (("key", self.caller), ("model", self.model))
        return "/".join(f"{kind}:{name}" for kind, name in parts if name)

    @property
    def owner(self) -> str:
        """The owner of the limit, for people."""
        if not self.caller:
            return f"the model {self.model!r} for all callers together"
        return f"this key with the model {self.model!r}" if self.model else "this key"


def limits_of(caller: Caller, model: str, by_model: Mapping[str, Limits]) -> list[Limit]:
    """Return all limits of a caller's request for `model`; `by_model` are the limits shared by all callers.

    Requests of batches have slots of their own, so that a batch leaves those of other requests free.
    """
    found = [
        *_limits(caller.limits, caller.id, ""),
        *_matching(caller.limits_by_model, caller.id, model),
        *_matching(by_model, "", model),
    ]
    if not caller.is_batch:
        return found
    return [replace(each, of_batches=each.measure is Measure.CONCURRENT_REQUESTS) for each in found]


def own_limits(caller: Caller) -> list[Limit]:
    """Return the limits that only this caller has, of all models and patterns."""
    by_model = caller.limits_by_model.items()
    return [
        *_limits(caller.limits, caller.id, ""),
        *(limit for pattern, limits in by_model for limit in _limits(limits, caller.id, pattern)),
    ]


def _matching(by_model: Mapping[str, Limits], caller: str, model: str) -> Iterator[Limit]:
    """Return the limits whose name or pattern matches; the models of a pattern share them."""
    for pattern, limits in by_model.items():
        if fnmatchcase(model, pattern):
            yield from _limits(limits, caller, pattern)


def _limits(limits: Limits, caller: str, model: str) -> Iterator[Limit]:
    """Yield the limits that are set."""
    for measure in Measure:
        value: int | None = getattr(limits, measure.value)
        if value is not None:
            yield Limit(measure, value, caller, model)

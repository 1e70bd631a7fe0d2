"""The limits of one request: what is measured, who shares it, and its description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from urllib.parse import quote

from service.generation.caller import Caller, Limits
from service.quota.bucket import Bucket
from service.quota.store import Places


class Measure(StrEnum):
    """What a limit counts; the values are the names of `Limits`' fields."""

    REQUESTS = "requests_per_minute"
    INPUT_TOKENS = "input_tokens_per_minute"
    OUTPUT_TOKENS = "output_tokens_per_minute"
    CONCURRENT_REQUESTS = "concurrent_requests"
    MAX_TOKENS = "max_tokens"
    MAX_N = "max_n"


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: of a caller, of a caller's use of a model, or of what all callers together use of a model.

    `caller` and `model` are empty where it isn't theirs alone; `model` may be a pattern, whose models share the limit.
    """

    measure: Measure
    value: int
    caller: str
    model: str

    @property
    def name(self) -> str:
        """What the store knows it by."""
        return f"{self.measure}/{quote(self.caller, safe='')}/{quote(self.model, safe='')}"

    @property
    def bucket(self) -> Bucket:
        """The bucket of a limit a minute."""
        return Bucket(self.name, self.value)

    @property
    def places(self) -> Places:
        """The places of a limit of requests at a time."""
        return Places(self.name, self.value)

    @property
    def subject(self) -> str:
        """Whose it is, for programs."""
        parts = (("key", self.caller), ("model", self.model))
        return "/".join(f"{kind}:{name}" for kind, name in parts if name)

    @property
    def owner(self) -> str:
        """Whose it is, for people."""
        if not self.caller:
            return f"the model {self.model!r} for all callers together"
        return f"this key with the model {self.model!r}" if self.model else "this key"


def limits_of(caller: Caller, model: str, by_model: Mapping[str, Limits]) -> list[Limit]:
    """All limits of a caller's request to `model`. `by_model` are those of all callers together."""
    return [
        *_limits(caller.limits, caller.id, ""),
        *_matching(caller.limits_by_model, caller.id, model),
        *_matching(by_model, "", model),
    ]


def _matching(by_model: Mapping[str, Limits], caller: str, model: str) -> Iterator[Limit]:
    """Those whose name or pattern fits; the models of a pattern share them."""
    for pattern, limits in by_model.items():
        if fnmatchcase(model, pattern):
            yield from _limits(limits, caller, pattern)


def _limits(limits: Limits, caller: str, model: str) -> Iterator[Limit]:
    for measure in Measure:
        value: int | None = getattr(limits, measure.value)
        if value is not None:
            yield Limit(measure, value, caller, model)

"""A caller: the rights of its key, its limits, and what it shares with others. Plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase


class Scope(StrEnum):
    """What a key may be used for."""

    GENERATE = "generate"
    EMBED = "embed"
    TOKENIZE = "tokenize"
    ENDPOINTS_READ = "endpoints:read"
    ENDPOINTS_WRITE = "endpoints:write"
    ADMIN = "admin"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a caller may ask for; None where there is no limit."""

    requests_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None
    concurrent_requests: int | None = None
    max_tokens: int | None = None  # of one answer
    max_n: int | None = None  # answers to one prompt


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller. The defaults are those of a caller without a key, where keys are not asked for.

    `id` is what queues, quotas and metrics know a caller by, and is no secret; empty without a key. `models` and
    `endpoints` are shell patterns of names. `limits_by_model` hold beside `limits`, by a model's name or pattern. A
    request's `priority` is `min_priority` at least: a lower value is served first. `weight` is the caller's part of
    what several compete for. Cached prompts are shared within `cache_group`, and never across groups.
    """

    id: str = ""
    name: str = ""
    scopes: frozenset[Scope] = frozenset(Scope)
    models: tuple[str, ...] = ("*",)
    endpoints: tuple[str, ...] = ("*",)
    limits: Limits = Limits()
    limits_by_model: Mapping[str, Limits] = field(default_factory=dict)
    min_priority: int = 0
    weight: float = 1.0
    cache_group: str = ""

    def may_use(self, model: str) -> bool:
        """Whether a model of that name is there for the caller; if not, it is as if it weren't served."""
        return _matches(model, self.models)

    def may_reach(self, endpoint: str, models: Iterable[str]) -> bool:
        """Whether an endpoint of that name is there for the caller; that takes all `models` behind it, too."""
        return _matches(endpoint, self.endpoints) and all(map(self.may_use, models))


ANONYMOUS = Caller()


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return "*" in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)

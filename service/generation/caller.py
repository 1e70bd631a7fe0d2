"""A caller: the rights of its key, its limits, and what it shares with others. Plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from process.settings.setting import setting


class Scope(StrEnum):
    """What a key may be used for."""

    GENERATE = "generate"
    EMBED = "embed"
    TOKENIZE = "tokenize"
    ENDPOINTS_READ = "endpoints:read"
    ENDPOINTS_WRITE = "endpoints:write"
    ADMIN = "admin"
    METRICS = "metrics"


def _limit(description: str, unit: str) -> Any:
    return field(default=None, metadata=setting(description, unit, ge=1))


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one caller's use; None for no limit."""

    requests_per_minute: int | None = _limit("requests admitted per minute", "requests")
    input_tokens_per_minute: int | None = _limit("prompt tokens per minute", "tokens")
    output_tokens_per_minute: int | None = _limit("generated tokens per minute", "tokens")
    concurrent_requests: int | None = _limit("requests in progress at the same time", "requests")
    max_tokens: int | None = _limit("largest max_tokens of a request", "tokens")
    max_n: int | None = _limit("largest n of a request", "choices")


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

"""A caller: the permissions and limits of its API key, and the cache that it shares. Plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from process.settings.setting import setting
from service.generation.service_level import BATCH, ServiceLevel


class Scope(StrEnum):
    """A permission of a key."""

    GENERATE = "generate"
    EMBED = "embed"
    TOKENIZE = "tokenize"
    ENDPOINTS_READ = "endpoints:read"
    ENDPOINTS_WRITE = "endpoints:write"
    ADMIN = "admin"
    METRICS = "metrics"


def _limit(description: str, unit: str) -> Any:
    """Return a field that is None, for no limit, or at least 1."""
    return field(default=None, metadata=setting(description, unit, ge=1))


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a caller; None for no limit."""

    requests_per_minute: int | None = _limit("requests admitted per minute", "requests")
    input_tokens_per_minute: int | None = _limit("prompt tokens per minute", "tokens")
    output_tokens_per_minute: int | None = _limit("generated tokens per minute", "tokens")
    concurrent_requests: int | None = _limit("requests in progress at the same time", "requests")
    max_tokens: int | None = _limit("largest max_tokens of a request", "tokens")
    max_n: int | None = _limit("largest n of a request", "choices")


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller. The defaults are those of a caller without a key, if authentication is off."""

    id: str = ""  # in queues, quotas and metrics; not secret; empty without a key
    name: str = ""
    scopes: frozenset[Scope] = frozenset(Scope)
    models: tuple[str, ...] = ("*",)  # shell patterns of names
    endpoints: tuple[str, ...] = ("*",)  # shell patterns of names
    limits: Limits = Limits()
    limits_by_model: Mapping[str, Limits] = field(default_factory=dict)  # in addition, by a model's name or pattern
    min_priority: int = 0  # of its requests; lower values are served first
    weight: float = 1.0  # weight of its share of an engine
    service_level: ServiceLevel = BATCH  # default for its requests
    cache_group: str = ""  # cached prompts are shared within a group only
    is_batch: bool = False  # whether its request is one of a batch, which yields to all others

    def may_use(self, model: str) -> bool:
        """Return whether the caller may use a model of that name. Models that it may not use are hidden from it."""
        return _matches(model, self.models)

    def may_reach(self, endpoint: str, models: Iterable[str]) -> bool:
        """Return whether the caller may use an endpoint of that name, and all `models` behind it."""
        return _matches(endpoint, self.endpoints) and all(map(self.may_use, models))


ANONYMOUS = Caller()


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a name matches one of the patterns, which may have wildcards."""
    return "*" in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)

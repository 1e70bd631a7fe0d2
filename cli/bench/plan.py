"""What is to be measured: whom to ask, for what, how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cli.bench.dialects import Way
from cli.bench.record import Record


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to ask, and how."""

    url: str
    dialect: Way
    model: str
    key: str = ""
    ca_file: str = ""
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Shape:
    """What is asked: lengths in tokens, and further fields of each request."""

    prompt_tokens: int
    max_tokens: int
    ignores_end: bool
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """`rate` is requests a second, at random moments (Poisson); without it, `concurrency` at once.

    It ends after `num_requests`, or when none may begin any more because `seconds` are over.
    """

    concurrency: int
    rate: float | None = None
    num_requests: int | None = None
    seconds: float | None = None
    seed: int = 0


@dataclass(slots=True)
class Outcome:
    """What came of it, and whether Ctrl-C ended it."""

    records: list[Record]
    is_interrupted: bool

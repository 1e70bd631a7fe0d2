"""The parameters of a measurement: the target, the requests and the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cli.bench.dialects import DialectName
from cli.bench.record import Record


@dataclass(frozen=True, slots=True)
class Target:
    """The server, dialect and model to measure."""

    url: str
    dialect: DialectName
    model: str
    key: str = ""
    ca_file: str = ""
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of requests: lengths in tokens, and additional fields."""

    prompt_tokens: int
    max_tokens: int
    ignores_end: bool
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """The arrival plan: `rate` requests per second at random times (Poisson), or else `concurrency` at a time.

    It ends after `num_requests`, or when `seconds` have passed.
    """

    concurrency: int
    rate: float | None = None
    num_requests: int | None = None
    seconds: float | None = None
    seed: int = 0


@dataclass(slots=True)
class Outcome:
    """The records of a run, and whether Ctrl-C ended it."""

    records: list[Record]
    is_interrupted: bool

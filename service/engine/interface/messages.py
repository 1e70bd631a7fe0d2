"""The messages between an engine's client and its core: plain data, in both directions.

The client identifies requests by serials, which are increasing integers. Commands are handled in the order of sending.
"""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from service.engine.interface.cache_events import CacheEvent
from service.generation.adapter import AdapterLoaded
from service.generation.errors import EngineError
from service.generation.formats.constraint import Constraint
from service.generation.outputs.output import GenerationOutput, PrefillProgress, Timings
from service.generation.requests.embedding import EmbeddingRequest, Vector
from service.generation.requests.request import GenerationRequest
from service.generation.stats import EngineStats


@dataclass(frozen=True, slots=True)
class Add:
    """Enqueue a request.

    `arrived` is the arrival time by `time.monotonic()`, `request_index` the index of the request among those opened
    together. `constraint_serial` is the serial under which its constraint, if any, was compiled.
    """

    serial: int
    request: GenerationRequest | EmbeddingRequest
    arrived: float
    request_index: int = 0
    constraint_serial: int | None = None


@dataclass(frozen=True, slots=True)
class Compile:
    """Compile a constraint and keep it under `serial` until `Abort`. It is reported as started, and with `Compiled`."""

    serial: int
    constraint: Constraint
    caller_id: str = ""


@dataclass(frozen=True, slots=True)
class Abort:
    """End and forget the work of `serial`, without further reports. It has no effect if the work has ended."""

    serial: int


@dataclass(frozen=True, slots=True)
class Check:
    """Check for lost cache blocks. The answer is `Done`, or an error that lists the lost blocks."""

    serial: int


@dataclass(frozen=True, slots=True)
class LoadAdapter:
    """Load an adapter from a folder, between two steps, and keep it by name. The answer is `AdapterLoaded`."""

    serial: int
    name: str
    folder: Path
    digest: str = ""  # that it must have; empty: any


@dataclass(frozen=True, slots=True)
class DropAdapter:
    """Unload an adapter, after its requests have ended or were aborted. The answer is `Done`."""

    serial: int
    name: str


@dataclass(frozen=True, slots=True)
class WatchCache:
    """Report the cache events of these callers from now on, and of no others. There is no answer."""

    callers: frozenset[str]


@dataclass(frozen=True, slots=True)
class StopCore:
    """End the core without another step."""


@dataclass(frozen=True, slots=True)
class RankCommand:
    """A command of the leader to another rank of tensor parallelism."""

    work: Any


Command: TypeAlias = Add | Compile | Abort | Check | LoadAdapter | DropAdapter | WatchCache | StopCore | RankCommand


class Done(NamedTuple):
    """A command was carried out."""


class Compiled(NamedTuple):
    """A constraint was compiled. Its shortest matching text has `num_tokens` tokens, or None if unknown."""

    num_tokens: int | None


class InputVector(NamedTuple):
    """The vector of one input of a request, the start time of its batch, and its share of the batch's time."""

    input_index: int
    vector: Vector
    began: float
    compute_s: float = 0.0


Output: TypeAlias = GenerationOutput | PrefillProgress | InputVector | Compiled | AdapterLoaded | Done


@dataclass(slots=True)
class Report:
    """The results of one or more steps, or of work outside of the steps.

    `started` lists the serials whose computation began. Each of `errors` ends the work of its serial. `stats` has the
    state after each step, or the latest state without a step; `stats` and `heartbeat` are missing if the report was
    not made between two steps. `cache_events` are those of watching callers since the last report.
    """

    started: list[int] = field(default_factory=list)
    outputs: list[tuple[int, Output]] = field(default_factory=list)
    errors: list[tuple[int, EngineError]] = field(default_factory=list)
    heartbeat: float | None = None  # time.monotonic()
    stats: list[EngineStats] = field(default_factory=list)
    cache_events: list[CacheEvent] = field(default_factory=list)

    def __reduce__(self) -> tuple[abc.Callable[..., Report], tuple[Any, ...]]:
        """Pickle outputs and stats as plain tuples, which takes a third of a named tuple's time."""
        outputs = [
            (serial, _plain(output) if isinstance(output, GenerationOutput) else output)
            for serial, output in self.outputs
        ]
        after_step = list(map(tuple, self.stats)), self.cache_events
        return _report_of, (self.started, outputs, self.errors, self.heartbeat, after_step)


_TIMINGS = GenerationOutput._fields.index("timings")


def _plain(output: GenerationOutput) -> tuple[Any, ...]:
    return (*output[:_TIMINGS], tuple(output.timings), *output[_TIMINGS + 1 :])


def _generated(plain: tuple[Any, ...]) -> GenerationOutput:
    fields = list(plain)
    fields[_TIMINGS] = Timings._make(fields[_TIMINGS])
    return GenerationOutput._make(fields)


def _report_of(
    started: list[int],
    outputs: list[tuple[int, Any]],
    errors: list[tuple[int, EngineError]],
    heartbeat: float | None,
    after_step: tuple[list[tuple[Any, ...]], list[CacheEvent]],
) -> Report:
    """Rebuild a report from its pickled parts."""
    stats, cache_events = after_step
    values = [(serial, _generated(output) if type(output) is tuple else output) for serial, output in outputs]
    return Report(started, values, errors, heartbeat, list(map(EngineStats._make, stats)), cache_events)


Emit: TypeAlias = abc.Callable[[Report], None]  # any thread may call it
BeforeStep: TypeAlias = abc.Callable[[float], None]  # called before a step, with its expected duration in seconds

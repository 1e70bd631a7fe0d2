"""The messages between an engine's client and its core: plain data, in both directions.

Requests are named by serials, whole numbers that the front counts up. Mail is handled in the order of its sending.
"""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from service.generation.adapter import AdapterLoaded
from service.generation.constraint import Constraint
from service.generation.embedding import EmbeddingRequest, Vector
from service.generation.errors import EngineError
from service.generation.output import GenerationOutput, Timings
from service.generation.request import GenerationRequest
from service.generation.stats import EngineStats


@dataclass(frozen=True, slots=True)
class Add:
    """Let a request wait for its first step.

    `arrived` is an instant of `time.monotonic()`, `request_index` the request's place among those opened together.
    Its constraint, if it has any, is the one that was compiled as `constraint_serial`.
    """

    serial: int
    request: GenerationRequest | EmbeddingRequest
    arrived: float
    request_index: int = 0
    constraint_serial: int | None = None


@dataclass(frozen=True, slots=True)
class Compile:
    """Compile a constraint, to be named by `serial` until that is aborted. Reported as started, and with `Compiled`."""

    serial: int
    constraint: Constraint
    caller_id: str = ""


@dataclass(frozen=True, slots=True)
class Abort:
    """End and forget whatever `serial` names; nothing more is told of it. Does nothing if it has ended."""

    serial: int


@dataclass(frozen=True, slots=True)
class Check:
    """Look for lost cache blocks. Answered with `Done`, or with an error that says what is lost."""

    serial: int


@dataclass(frozen=True, slots=True)
class LoadAdapter:
    """Read an adapter's folder, between two steps, and hold it under a name. Answered with `AdapterLoaded`."""

    serial: int
    name: str
    folder: Path


@dataclass(frozen=True, slots=True)
class DropAdapter:
    """Forget an adapter, whose requests have ended or were aborted before. Answered with `Done`."""

    serial: int
    name: str


@dataclass(frozen=True, slots=True)
class StopCore:
    """Compute no further step, and end."""


@dataclass(frozen=True, slots=True)
class RankCommand:
    """To an engine's side that follows another one: what to do next."""

    work: Any


Command: TypeAlias = Add | Compile | Abort | Check | LoadAdapter | DropAdapter | StopCore | RankCommand


class Done(NamedTuple):
    """What was asked for is done."""


class Compiled(NamedTuple):
    """A constraint is compiled. The shortest text that meets it has `num_tokens`; None if that isn't known."""

    num_tokens: int | None


class InputVector(NamedTuple):
    """The vector of one input of a request, when the batch with it began, and its share of the batch's time."""

    input_index: int
    vector: Vector
    began: float
    compute_s: float = 0.0


Output: TypeAlias = GenerationOutput | InputVector | Compiled | AdapterLoaded | Done


@dataclass(slots=True)
class Report:
    """What a step or several have brought, or what was done beside the steps.

    `started` are the serials of which nothing had been computed before. Each of `errors` ends what its serial names.
    `stats` are those after each step, or the newest ones where there was none; they and `heartbeat` are missing where
    the report wasn't made between two steps.
    """

    started: list[int] = field(default_factory=list)
    outputs: list[tuple[int, Output]] = field(default_factory=list)
    errors: list[tuple[int, EngineError]] = field(default_factory=list)
    heartbeat: float | None = None  # time.monotonic()
    stats: list[EngineStats] = field(default_factory=list)

    def __reduce__(self) -> tuple[abc.Callable[..., Report], tuple[Any, ...]]:
        """What each step has crosses as plain tuples, since these pickle in a third of a named tuple's time."""
        outputs = [
            (serial, _plain(output) if isinstance(output, GenerationOutput) else output)
            for serial, output in self.outputs
        ]
        return _report_of, (self.started, outputs, self.errors, self.heartbeat, list(map(tuple, self.stats)))


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
    stats: list[tuple[Any, ...]],
) -> Report:
    """The report again."""
    made = [(serial, _generated(output) if type(output) is tuple else output) for serial, output in outputs]
    return Report(started, made, errors, heartbeat, list(map(EngineStats._make, stats)))


Emit: TypeAlias = abc.Callable[[Report], None]  # any thread may call it
Before: TypeAlias = abc.Callable[[float], None]  # called ahead of a step, with the seconds that it will likely take

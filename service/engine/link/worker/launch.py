"""The messages that a worker and its parent exchange in addition to commands and reports."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from typing import Any

from service.engine.link.engine_spec import EngineSpec, Plan
from service.generation.errors import ModelLoadError


@dataclass(frozen=True, slots=True)
class Examine:
    """A message to a worker that has no core: the core to plan without loading it, and the log level."""

    engine_spec: EngineSpec
    log_level: int


@dataclass(frozen=True, slots=True)
class Examined:
    """The answer to `Examine`. The worker waits for the next `Examine`, or for its `Launch`."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Launch:
    """The message that gives a worker its core: what to load, the heartbeat interval when idle, and the log level."""

    engine_spec: EngineSpec
    heartbeat_interval_s: float
    log_level: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has loaded the model. The fields are those of `BuiltCore`."""

    description: Any
    reload_arguments: abc.Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The worker could not load the model, and exits."""

    error: ModelLoadError


@dataclass(frozen=True, slots=True)
class Died:
    """A step or the load raised an exception that ends the worker."""

    reason: str

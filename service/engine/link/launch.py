"""The messages that a worker and its parent exchange in addition to commands and reports."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from typing import Any

from service.engine.link.engine_spec import EngineSpec
from service.generation.errors import ModelLoadError


@dataclass(frozen=True, slots=True)
class Launch:
    """The first message to a worker: what to load, how often to report when idle, and from which level on to log."""

    engine_spec: EngineSpec
    beat_s: float
    log_level: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is loaded. `description` and `again` are the recipe's."""

    description: Any
    again: abc.Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The model can't be loaded, and the worker ends."""

    error: ModelLoadError


@dataclass(frozen=True, slots=True)
class Died:
    """A step, or the load, raised what ends the worker."""

    reason: str

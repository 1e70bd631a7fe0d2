"""The specification of an engine's core as plain data, built by a thread here or by a worker process."""

from __future__ import annotations

import importlib
from collections import abc
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from service.engine.link.loop import Core


@runtime_checkable
class HelperProcesses(Protocol):
    """Processes that a core computes with, and can't do without."""

    def watch(self, on_death: abc.Callable[[str], None]) -> None:
        """Call `on_death` with the reason, on any thread, when one of them has ended by itself."""

    def close(self) -> None:
        """End them; returns when they have ended."""


@dataclass(frozen=True, slots=True)
class BuiltCore:
    """An engine's core and its description, which can be pickled.

    `again` has arguments that build the same core once more, without the decisions that loading made. `helpers` are
    other processes that the core computes with.
    """

    core: Core
    description: Any
    again: abc.Mapping[str, Any] = field(default_factory=dict)
    helpers: HelperProcesses | None = None


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """A function by its name, `module:function`, and its arguments, which can be pickled. It returns a `BuiltCore`."""

    function: str
    arguments: abc.Mapping[str, Any]

    def make(self) -> BuiltCore:
        """Call it. Raises what it raises: ModelLoadError for whatever is wrong with a model."""
        module, _, name = self.function.partition(":")
        made = getattr(importlib.import_module(module), name)(**self.arguments)
        if not isinstance(made, BuiltCore):
            raise TypeError(f"{self.function} has made {made!r}")
        return made

    def with_arguments(self, arguments: abc.Mapping[str, Any]) -> EngineSpec:
        """The same function with some arguments replaced."""
        return replace(self, arguments={**self.arguments, **arguments})

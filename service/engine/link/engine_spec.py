"""The specification of an engine's core as plain data, from which this process or a worker process builds the core."""

from __future__ import annotations

import importlib
from collections import abc
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from service.engine.link.loop import Core


@runtime_checkable
class HelperProcesses(Protocol):
    """The processes that compute with a core; the core cannot run without them."""

    def watch(self, on_death: abc.Callable[[str], None]) -> None:
        """Call `on_death` with the reason, on any thread, if a process ends unexpectedly."""

    def close(self) -> None:
        """End the processes, and return when they have ended."""


@dataclass(frozen=True, slots=True)
class BuiltCore:
    """An engine's core and its picklable description.

    `reload_arguments` are arguments that rebuild the same core, with the values that the first load chose. `helpers`
    are other processes that compute with the core.
    """

    core: Core
    description: Any
    reload_arguments: abc.Mapping[str, Any] = field(default_factory=dict)
    helpers: HelperProcesses | None = None


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """The name of a function, `module:function`, that returns a `BuiltCore`, and its picklable arguments."""

    function: str
    arguments: abc.Mapping[str, Any]

    def make(self) -> BuiltCore:
        """Call the function and return its result. Raise ModelLoadError if the model cannot be loaded."""
        module, _, name = self.function.partition(":")
        built = getattr(importlib.import_module(module), name)(**self.arguments)
        if not isinstance(built, BuiltCore):
            raise TypeError(f"{self.function} must return a BuiltCore, not {built!r}")
        return built

    def with_arguments(self, arguments: abc.Mapping[str, Any]) -> EngineSpec:
        """Return a copy with some arguments replaced."""
        return replace(self, arguments={**self.arguments, **arguments})

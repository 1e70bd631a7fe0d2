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


@runtime_checkable
class Plan(Protocol):
    """A picklable description of a core that was not loaded yet."""

    def matches(self, description: Any) -> bool:
        """Return whether the description of a loaded core is as planned."""


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
    """The name of a function, `module:function`, that returns a `BuiltCore`, and its picklable arguments.

    `planner` is the name of a function that takes the same arguments, and returns a `Plan` of the core.
    """

    function: str
    arguments: abc.Mapping[str, Any]
    planner: str = ""

    def make(self) -> BuiltCore:
        """Call the function and return its result. Raise ModelLoadError if the model cannot be loaded."""
        built = _function(self.function)(**self.arguments)
        if not isinstance(built, BuiltCore):
            raise TypeError(f"{self.function} must return a BuiltCore, not {built!r}")
        return built

    def plan(self) -> Plan:
        """Return a plan of the core, without loading it. Raise ModelLoadError if it could not be loaded."""
        plan = _function(self.planner)(**self.arguments)
        if not isinstance(plan, Plan):
            raise TypeError(f"{self.planner} must return a Plan, not {plan!r}")
        return plan

    def with_arguments(self, arguments: abc.Mapping[str, Any]) -> EngineSpec:
        """Return a copy with some arguments replaced."""
        return replace(self, arguments={**self.arguments, **arguments})


def _function(name: str) -> Any:
    """Import the function `module:function`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)

"""Requests that hold models in memory, or wait until the reconciler has loaded them.

It is used on the event loop only. `ResidencyPolicy` decides, the reconciler loads and unloads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final, Protocol

from service.deployment.residency.policy import ResidencyLimits, ResidencyPolicy, ResidencyStep
from service.deployment.residency.resident_model import Hold
from service.generation.caller import Caller
from service.generation.errors import DeadlineExceeded, EngineAsleep, EngineClosed, EngineOverloaded
from service.registry.description import ModelState
from service.registry.errors import ModelNotFound, ModelNotLoaded
from service.registry.models import ServedModel

MAX_WAITING: Final = 256  # requests that wait for one model; more are rejected
MAX_WAIT_S: Final = 600.0  # of a request without a deadline
_RETRY_S: Final = 1.0


class ResidencyObserver(Protocol):
    """Counts loads and unloads on demand."""

    def on_load(self, model: str, *, is_success: bool) -> None:
        """Count a load that has ended."""

    def on_unload(self, model: str) -> None:
        """Count an unload."""

    def on_wait(self, model: str, wait_s: float) -> None:
        """Record the time that a request waited for its model to be loaded."""


class Residency:
    """Which models are in memory. Without limits every model is, and nothing waits."""

    def __init__(
        self,
        limits: ResidencyLimits = ResidencyLimits(),  # noqa: B008  it is immutable
        observer: ResidencyObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_on = limits.is_on
        self._policy = ResidencyPolicy(limits, clock)
        self._observer = observer
        self._clock = clock
        self._waiting: dict[Hold, asyncio.Future[None]] = {}
        self._asleep: Collection[str] = ()
        self._on_need: Callable[[], None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def loaded(self) -> Collection[str]:
        """The names of the models in memory, if models are loaded on demand."""
        return self._policy.loaded

    def call_on_need(self, on_need: Callable[[], None]) -> None:
        """Call `on_need` whenever `next_step` may have something to do."""
        self._on_need = on_need

    @asynccontextmanager
    async def held(
        self, name: str, caller: Caller, deadline: float | None, keep_s: float | None = None
    ) -> AsyncIterator[float]:
        """Keep a model, or the model of an adapter, in memory for the duration of the block.

        `keep_s` is how long the caller wants it to stay afterwards; None: the default. Entry waits until the model is
        loaded, and returns the time that this took: 0 if it was in memory. It raises ModelNotLoaded if that fails,
        EngineOverloaded if too many requests wait for it, DeadlineExceeded, and ModelNotFound or EngineAsleep if an
        operator removes it meanwhile.
        """
        if not self._is_managed(name := self._own_name(name)):
            yield 0.0
            return
        self._reject_if_hopeless(name)
        hold = self._policy.hold(name, caller.id, keep_s)
        try:
            yield 0.0 if hold.is_running else await self._until_running(hold, deadline)
        finally:
            self._policy.release(hold)
            self._on_need()

    def let_go(self, name: str, caller: Caller) -> None:
        """Record that a caller needs a model, or the model of an adapter, no longer."""
        if self._is_managed(name := self._own_name(name)):
            self._policy.let_go(name, caller.id)
            self._on_need()

    def expires_ns(self, model: ServedModel) -> int | None:
        """Return when a model is unloaded if no request arrives, in ns since the epoch; None if there is no time."""
        name = self._own_name(model.name)
        expires_in_s = self._policy.expires_in_s(name) if self._is_managed(name) else None
        return None if expires_in_s is None else time.time_ns() + int(expires_in_s * 1e9)

    def must_wait(self, name: str) -> bool:
        """Return whether a request for a model, or for an adapter, would wait until the model is loaded."""
        return self._is_managed(name := self._own_name(name)) and not self._policy.is_open(name)

    def state_of(self, model: ServedModel) -> ModelState:
        """Return whether a model is in memory, and if not, whether its next request loads it."""
        if not model.engine.is_asleep:
            return ModelState.LOADED
        return ModelState.UNLOADED if self._is_managed(self._own_name(model.name)) else ModelState.ASLEEP

    def add(self, name: str, num_bytes: int, *, is_pinned: bool, is_loaded: bool = True) -> None:
        """Add a model that was loaded, or that its first request loads."""
        if self.is_on:
            self._policy.add(name, num_bytes, is_pinned=is_pinned, is_loaded=is_loaded)
            self._settle()

    def remove(self, name: str) -> None:
        """Remove a model that is not served any more. Requests that wait for it get ModelNotFound."""
        self._policy.remove(name)
        self._fail(name, lambda: ModelNotFound(name))

    def set_asleep(self, names: Collection[str]) -> None:
        """Leave the models alone that operators have put to sleep. Requests that wait for them get EngineAsleep."""
        self._asleep = names
        for name in names:
            self._fail(name, lambda: EngineAsleep("the model is asleep until it is woken", _RETRY_S))

    def victim_for(self, name: str) -> str | None:
        """Return a model to unload before another one is loaded without a request; None if that one fits.

        Raise EngineOverloaded if it doesn't fit, and every model is in use or pinned.
        """
        if not self.is_on:
            return None
        try:
            return self._policy.victim_for(name)
        except LookupError as error:
            text = f"there is no capacity for the model {name!r}: every loaded model is in use or pinned"
            raise EngineOverloaded(text, _RETRY_S) from error

    def unfit_reason(self, name: str) -> str | None:
        """Return why a model that was loaded doesn't fit even alone with the pinned models; None if it does."""
        if not self._policy.has(name) or self._policy.can_ever_fit(name):
            return None
        return f"the model {name!r} exceeds max_loaded_models or max_loaded_bytes together with the pinned models"

    def pin(self, name: str) -> None:
        """Keep a model in memory from now on, because it can't be unloaded."""
        if self._policy.has(name):
            self._policy.pin(name)
            self._settle()

    def next_step(self) -> ResidencyStep | None:
        """Return the next model to load or unload; None if there is none. `on_need` is called when there may be."""
        step = self._policy.next_step()
        self._settle()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if step is None and (due_in_s := self._policy.due_in_s()) is not None:
            self._timer = asyncio.get_running_loop().call_later(due_in_s, self._on_need)
        return step

    def record_loaded(self, name: str) -> None:
        """Record that a model was loaded on demand."""
        if self._policy.has(name):
            self._policy.record_loaded(name)
            self._settle()
        if self._observer is not None:
            self._observer.on_load(name, is_success=True)

    def record_unloaded(self, name: str) -> None:
        """Record that a model is being unloaded: requests for it wait from now on."""
        if name in self._policy.loaded:
            self._policy.record_unloaded(name)
            if self._observer is not None:
                self._observer.on_unload(name)

    def record_failed(self, name: str) -> None:
        """Record that a load on demand failed. Requests that wait for it get ModelNotLoaded."""
        if self._policy.has(name):
            self._policy.record_failed(name)
        self._fail(name, lambda: ModelNotLoaded(name))
        if self._observer is not None:
            self._observer.on_load(name, is_success=False)

    def close(self) -> None:
        """End the requests that wait: the service stops."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for hold in [*self._waiting]:
            self._fail(hold.model, lambda: EngineClosed("the service stopped before the model was loaded"))

    def _own_name(self, name: str) -> str:
        """Return the name of a model, or that of an adapter's model."""
        return name if self._policy.has(name) else name.rpartition(":")[0]

    def _is_managed(self, name: str) -> bool:
        """Return whether a model is loaded on demand; one that an operator has put to sleep isn't."""
        return self._policy.has(name) and name not in self._asleep

    def _reject_if_hopeless(self, name: str) -> None:
        """Raise the error of a request that can't be served, or must not wait."""
        if self._is_closed:
            raise EngineClosed("the service accepts no new requests")
        if self.unfit_reason(name) is not None:  # another model was pinned since
            raise ModelNotLoaded(name)
        if (wait_s := self._policy.failed_for_s(name)) > 0:
            error = ModelNotLoaded(name)
            error.retry_after_s = wait_s
            raise error
        if self._policy.num_waiting(name) >= MAX_WAITING:
            text = f"{MAX_WAITING} requests wait for the model {name!r} to be loaded; that is the limit"
            raise EngineOverloaded(text, _RETRY_S, for_all=True)

    async def _until_running(self, hold: Hold, deadline: float | None) -> float:
        """Return when the model is loaded. The value is the time that passed."""
        running = self._waiting[hold] = asyncio.get_running_loop().create_future()
        self._on_need()
        wait_s = MAX_WAIT_S if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            async with asyncio.timeout(wait_s):
                await running
        except TimeoutError as error:
            raise DeadlineExceeded("the deadline passed before the model was loaded") from error
        finally:
            self._waiting.pop(hold, None)
        waited_s = self._clock() - hold.since
        if self._observer is not None:
            self._observer.on_wait(hold.model, waited_s)
        return waited_s

    def _settle(self) -> None:
        """Let the requests continue whose model was loaded."""
        for hold, running in self._waiting.items():
            if hold.is_running and not running.done():
                running.set_result(None)

    def _fail(self, name: str, error: Callable[[], Exception]) -> None:
        """End the requests that wait for a model."""
        for hold, running in self._waiting.items():
            if hold.model == name and not running.done():
                self._policy.release(hold)
                running.set_exception(error())

"""Decide which models are in memory: the state of models and their requests, and what to load or unload next.

The rules, in their order:

1. A model is unloaded only if no request uses it and it is not pinned.
2. Of the keys that wait for a model, the one that was served least recently is served next.
3. A model is charged to each key that used it within `CLAIM_S`. To make room, the model is unloaded whose smallest
   charged key is charged with most models; of several, the one that was used least recently. So a key keeps its equal
   share of the memory whatever the others request, and a single key gets the least recently used order.
4. If every model is in use, the one that rule 3 chooses takes no new requests once a request has waited `PATIENCE_S`:
   they wait until it was unloaded and loaded again, and those that run end first.
5. A model without requests is unloaded when the time of each of its keys is over (`ResidentModel.expires_at`).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from service.deployment.residency.resident_model import CLAIM_S, Hold, ResidentModel

PATIENCE_S: Final = 5.0  # the wait after which a model in use takes no new requests
FAILURE_S: Final = 10.0  # how long requests are rejected after a load has failed
_MAX_KEYS: Final = 1024  # whose order of service is kept


@dataclass(frozen=True, slots=True)
class ResidencyLimits:
    """What may be in memory at once; None for no limit."""

    max_models: int | None = None
    max_bytes: int | None = None  # of the models' weights
    idle_s: float | None = None  # the longest time after which a model without requests is unloaded

    @property
    def is_on(self) -> bool:
        """Whether models are loaded on demand."""
        return (self.max_models, self.max_bytes, self.idle_s) != (None, None, None)


class ResidencyStep(NamedTuple):
    """A model to load or to unload."""

    model: str
    is_load: bool


class ResidencyPolicy:
    """Models by name, with their requests. Not thread-safe."""

    def __init__(self, limits: ResidencyLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._models: dict[str, ResidentModel] = {}
        self._closing: str | None = None  # the model in use that takes no new requests
        self._num_served = 0
        self._served: dict[str, int] = {}  # the order in which keys were served, least recently first

    @property
    def loaded(self) -> Collection[str]:
        """The names of the models in memory."""
        return [name for name, model in self._models.items() if model.is_loaded]

    def add(self, name: str, num_bytes: int, *, is_pinned: bool, is_loaded: bool = True) -> None:
        """Add or update a model. If it was loaded, the requests that wait for it run from now on."""
        if (model := self._models.get(name)) is None:
            model = self._models[name] = ResidentModel(num_bytes, is_pinned)
        model.num_bytes, model.is_pinned = num_bytes, is_pinned
        if is_loaded:
            self.record_loaded(name)

    def remove(self, name: str) -> None:
        """Remove a model with its requests."""
        self._models.pop(name, None)
        if self._closing == name:
            self._closing = None

    def has(self, name: str) -> bool:
        """Return whether a model was added and not removed."""
        return name in self._models

    def is_open(self, name: str) -> bool:
        """Return whether a request for a model would run at once."""
        return self._models[name].is_loaded and name != self._closing

    def hold(self, name: str, key: str, keep_s: float | None = None) -> Hold:
        """Begin a request of a key. It runs at once if the model is loaded.

        `keep_s` is the time that the model stays without requests, as far as the key is concerned; None: the default.
        """
        model, now = self._models[name], self._clock()
        hold = Hold(name, key, now, is_running=self.is_open(name))
        model.holds.append(hold)
        model.claim(key, self._clock(), keep_s)
        return hold

    def release(self, hold: Hold) -> None:
        """End a request that runs or waits."""
        model = self._models.get(hold.model)
        if model is not None and hold in model.holds:
            model.holds.remove(hold)
            claim = model.claims.get(hold.key)
            model.claim(hold.key, self._clock(), claim.keep_s if claim is not None else None)

    def let_go(self, name: str, key: str) -> None:
        """Record that a key needs a model no longer."""
        if (model := self._models[name]).is_loaded:
            model.claim(key, self._clock(), 0.0)

    def expires_in_s(self, name: str) -> float | None:
        """Return the seconds after which a loaded model is unloaded if no request arrives; None if there is no time."""
        model = self._models[name]
        if not model.is_loaded or model.is_pinned:
            return None
        expires_at = model.expires_at(self._limits.idle_s)
        if model.holds:
            expires_at = max(expires_at, self._clock())
        return None if expires_at == math.inf else max(0.0, expires_at - self._clock())

    def num_waiting(self, name: str) -> int:
        """Return the number of requests that wait for a model."""
        return sum(not hold.is_running for hold in self._models[name].holds)

    def failed_for_s(self, name: str) -> float:
        """Return for how many more seconds requests are rejected because the last load has failed; 0 if they aren't."""
        return max(0.0, self._models[name].failed_until - self._clock())

    def unfit_reason(self, name: str) -> str | None:
        """Return why a model doesn't fit even if all models but the pinned ones are unloaded; None if it does."""
        pinned = [model for other, model in self._models.items() if model.is_pinned and other != name]
        model, limits = self._models[name], self._limits
        if self._fit([*pinned, model]):
            return None
        if limits.max_models is not None and len(pinned) >= limits.max_models:
            return f"max_loaded_models is {limits.max_models}, and {len(pinned)} others are pinned"
        needed, taken = model.num_bytes, sum(each.num_bytes for each in pinned)
        return f"it has {needed} bytes and the pinned models {taken}; max_loaded_bytes is {limits.max_bytes}"

    def record_loaded(self, name: str) -> None:
        """Record that a model is in memory. The requests that wait for it run from now on."""
        model, now = self._models[name], self._clock()
        if not model.is_loaded:
            waiting = {hold.key for hold in model.holds}
            model.claims = {key: replace(claim, used_at=now) for key, claim in model.claims.items() if key in waiting}
        model.is_loaded, model.idle_since = True, now
        model.admit()

    def record_unloaded(self, name: str) -> None:
        """Record that a model is not in memory any more, or will not be in a moment."""
        self._models[name].is_loaded = False
        if self._closing == name:
            self._closing = None

    def record_failed(self, name: str) -> None:
        """Record that a load failed. The caller releases the requests that wait for it."""
        self._models[name].failed_until = self._clock() + FAILURE_S

    def pin(self, name: str) -> None:
        """Keep a model in memory from now on."""
        self._models[name].is_pinned = True
        self.record_loaded(name)

    def victim_for(self, name: str) -> str | None:
        """Return a model to unload before another one is loaded for an operator; None if that one fits.

        The size of a model that was never loaded is unknown, and counts as 0. Raise LookupError if it doesn't fit, and
        every model is in use or pinned.
        """
        model = self._models.get(name) or ResidentModel(0, is_pinned=False)
        if self._has_capacity(name, model):
            return None
        if not (idle := self._victims(name, is_used=False)):
            raise LookupError(name)
        return self._choose(idle, "")

    def next_step(self) -> ResidencyStep | None:
        """Return what to do next, or None if there is nothing to do until a request begins or ends, or `due_in_s`."""
        if (idle := self._idle() or self._excess()) is not None:
            return ResidencyStep(idle, is_load=False)
        if (wanted := self._next_wanted()) is None:
            self._reopen()
            return None
        if self._has_capacity(wanted.model, self._models[wanted.model]):
            self._count_served(wanted.key)
            return ResidencyStep(wanted.model, is_load=True)
        if idle_models := self._victims(wanted.model, is_used=False):
            return ResidencyStep(self._choose(idle_models, wanted.key), is_load=False)
        if self._closing is None and self._clock() - wanted.since >= PATIENCE_S:
            used = self._victims(wanted.model, is_used=True)
            self._closing = self._choose(used, wanted.key) if used else None
        return None

    def due_in_s(self) -> float | None:
        """Return the seconds after which `next_step` may return something else; None if that needs a request."""
        now = self._clock()
        due = [at for _, model in self._unused() if (at := model.expires_at(self._limits.idle_s)) < math.inf]
        if (wanted := self._next_wanted()) is not None and wanted.since + PATIENCE_S > now:
            due.append(wanted.since + PATIENCE_S)
        return max(0.0, min(due) - now) if due else None

    def _fit(self, models: Collection[ResidentModel]) -> bool:
        """Return whether the limits allow all of `models` at once."""
        limits = self._limits
        return (limits.max_models is None or len(models) <= limits.max_models) and (
            limits.max_bytes is None or sum(model.num_bytes for model in models) <= limits.max_bytes
        )

    def _has_capacity(self, name: str, model: ResidentModel) -> bool:
        """Return whether a model fits in addition to those in memory."""
        return self._fit([*(each for other, each in self._models.items() if each.is_loaded and other != name), model])

    def _unused(self) -> Iterator[tuple[str, ResidentModel]]:
        """The models in memory that no request uses and that are not pinned."""
        for name, model in self._models.items():
            if model.is_loaded and not (model.holds or model.is_pinned):
                yield name, model

    def _idle(self) -> str | None:
        """Return a model whose time without requests is over, or None."""
        now = self._clock()
        return next((name for name, model in self._unused() if model.expires_at(self._limits.idle_s) <= now), None)

    def _excess(self) -> str | None:
        """Return a model to unload because those in memory exceed the limits, or None."""
        if self._fit([model for model in self._models.values() if model.is_loaded]):
            return None
        idle = [name for name, _ in self._unused()]
        return self._choose(idle, "") if idle else None

    def _next_wanted(self) -> Hold | None:
        """Return the request whose model is loaded next, or None if no request waits for a model out of memory."""
        waiting = [
            hold
            for model in self._models.values()
            if not model.is_loaded and self._clock() >= model.failed_until
            for hold in model.holds
        ]
        return min(waiting, key=lambda hold: (self._served.get(hold.key, 0), hold.since), default=None)

    def _count_served(self, key: str) -> None:
        """Record that a load for a key begins."""
        self._num_served += 1
        self._served.pop(key, None)
        self._served[key] = self._num_served
        if len(self._served) > _MAX_KEYS:
            del self._served[next(iter(self._served))]

    def _victims(self, wanted: str, *, is_used: bool) -> Collection[str]:
        """The models in memory that may be unloaded for another one, in use or not."""
        return [
            name
            for name, model in self._models.items()
            if model.is_loaded and not model.is_pinned and name != wanted and model.is_used is is_used
        ]

    def _choose(self, names: Collection[str], key: str) -> str:
        """Return the model to unload for a request of `key`."""
        now = self._clock()
        charged = {
            name: [each for each, claim in model.claims.items() if now - claim.used_at < CLAIM_S]
            for name, model in self._models.items()
            if model.is_loaded
        }
        num_models = Counter(each for keys in charged.values() for each in keys)
        num_models[key] += 1  # with the model that it wants

        def order(name: str) -> tuple[float, float]:
            smallest = min((num_models[each] for each in charged[name]), default=math.inf)
            return smallest, -self._models[name].used_at

        return max(reversed([*names]), key=order)  # of models that were never used, the last one

    def _reopen(self) -> None:
        """Let a model take requests again whose memory nobody waits for any more."""
        if (name := self._closing) is not None:
            self._closing = None
            self._models[name].admit()

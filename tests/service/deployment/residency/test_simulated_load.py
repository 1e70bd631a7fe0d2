"""More models than fit into memory, on a simulated clock: how often models are loaded, and how long keys wait."""

from __future__ import annotations

import heapq
import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

import pytest

from service.deployment.residency.policy import (
    PATIENCE_S,
    ResidencyLimits,
    ResidencyPolicy,
    ResidencyStep,
)
from service.deployment.residency.resident_model import Hold
from tests.engine.fakes import Clock

FIVE = ResidencyLimits(max_models=5)
LOAD_S, RUN_S = 3.0, 1.0


@dataclass
class Simulation:
    """A policy with a loader that takes `LOAD_S` for each load, on a simulated clock."""

    limits: ResidencyLimits
    models: Sequence[str]
    pinned: Sequence[str] = ()
    clock: Clock = field(default_factory=Clock)
    num_loads: Counter[str] = field(default_factory=Counter)
    num_answered: Counter[str] = field(default_factory=Counter)  # by key
    waits: dict[str, list[float]] = field(default_factory=dict)  # of each key's requests
    most_loaded: int = 0

    def __post_init__(self) -> None:
        self.policy = ResidencyPolicy(self.limits, self.clock)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serials = count()
        self._is_loading = False
        self._waiting: list[tuple[Hold, Callable[[], None]]] = []
        for name in self.models:
            self.policy.add(name, 1, is_pinned=name in self.pinned)
            if name not in self.pinned:
                self.policy.record_unloaded(name)

    def at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._serials), act))

    def request(self, key: str, model: str, then: Callable[[], None] = lambda: None) -> None:
        """Begin a request now; it runs for `RUN_S` as soon as its model is loaded."""
        self._waiting.append((self.policy.hold(model, key), then))

    def run(self) -> None:
        """Run until nothing is left to do."""
        while self._events:
            self.clock.now, _, act = heapq.heappop(self._events)
            act()
            self._work()

    def _work(self) -> None:
        self._start_running()
        while not self._is_loading and (step := self.policy.next_step()) is not None:
            self._take(step)
        self._start_running()
        if (due_in_s := self.policy.due_in_s()) is not None and not self._is_loading:
            self.at(self.clock.now + max(due_in_s, 1e-6), lambda: None)

    def _take(self, step: ResidencyStep) -> None:
        if step.is_load:
            self._is_loading = True
            self.num_loads[step.model] += 1
            self.at(self.clock.now + LOAD_S, lambda: self._have_loaded(step.model))
        else:
            assert step.model not in self.pinned
            assert step.model not in self.running, "a running request was ended"
            self.policy.record_unloaded(step.model)

    def _have_loaded(self, model: str) -> None:
        self._is_loading = False
        self.policy.record_loaded(model)
        self.most_loaded = max(self.most_loaded, len(self.policy.loaded))

    @property
    def running(self) -> set[str]:
        return {hold.model for hold in self._running}

    def _start_running(self) -> None:
        for entry in [each for each in self._waiting if each[0].is_running]:
            self._waiting.remove(entry)
            hold, then = entry
            assert hold.model in self.policy.loaded
            self._running.append(hold)
            self.waits.setdefault(hold.key, []).append(self.clock.now - hold.since)
            self.at(self.clock.now + RUN_S, lambda hold=hold, then=then: self._end(hold, then))  # type: ignore[misc]

    def _end(self, hold: Hold, then: Callable[[], None]) -> None:
        self._running.remove(hold)
        self.num_answered[hold.key] += 1
        self.policy.release(hold)
        then()

    _running: list[Hold] = field(default_factory=list)


def num_lru_loads(requests: Iterable[str], capacity: int) -> int:
    """Return the number of loads of a plain least recently used cache."""
    cache: OrderedDict[str, None] = OrderedDict()
    num_loads = 0
    for model in requests:
        num_loads += model not in cache
        cache[model] = None
        cache.move_to_end(model)
        if len(cache) > capacity:
            cache.popitem(last=False)
    return num_loads


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_twenty_models_by_a_zipf_load_lose_no_request_with_memory_for_five(seed: int) -> None:
    """No running request is ended by an unload, and there are at most as many loads as with a plain LRU cache."""
    draw = random.Random(seed)
    models = [f"m{index}" for index in range(20)]
    wanted = draw.choices(models, [1 / (rank + 1) for rank in range(20)], k=600)
    simulation = Simulation(FIVE, models)
    for index, model in enumerate(wanted):
        simulation.at(index * 2.0, lambda model=model: simulation.request("", model))  # type: ignore[misc]
    simulation.run()
    assert simulation.num_answered[""] == len(wanted)
    assert simulation.most_loaded == 5
    # Requests for one model that wait together need one load, where the plain cache counts each of its own order.
    assert simulation.num_loads.total() <= 1.05 * num_lru_loads(wanted, 5)


def test_one_key_in_turn_gets_exactly_the_loads_of_a_least_recently_used_cache() -> None:
    draw = random.Random(3)
    models = [f"m{index}" for index in range(20)]
    wanted = draw.choices(models, [1 / (rank + 1) for rank in range(20)], k=300)
    simulation = Simulation(FIVE, models)
    rest = iter(wanted)

    def next_request() -> None:
        if (model := next(rest, None)) is not None:
            simulation.request("", model, next_request)

    simulation.at(0.0, next_request)
    simulation.run()
    assert simulation.num_loads.total() == num_lru_loads(wanted, 5)


def test_a_key_that_cycles_through_twenty_models_never_unloads_another_keys_model() -> None:
    """The other key's model is among the twenty; it is loaded once, although it is used less often than the others."""
    models = [f"m{index}" for index in range(20)]
    simulation = Simulation(FIVE, models)
    for index in range(400):
        model = models[index % 20]
        simulation.at(5.0 + index * 5.0, lambda model=model: simulation.request("cycling", model))  # type: ignore[misc]
    for index in range(40):
        simulation.at(index * 50.0, lambda: simulation.request("steady", "m0"))
    simulation.run()
    assert simulation.num_answered == {"cycling": 400, "steady": 40}
    assert simulation.num_loads["m0"] == 1
    assert max(simulation.waits["steady"][1:]) == 0.0


def test_keys_that_wait_are_served_in_turn() -> None:
    """A request waits for one load of the key that has nineteen waiting, not for all of them."""
    models = [f"m{index}" for index in range(20)]
    simulation = Simulation(FIVE, models)
    for model in models[1:]:
        simulation.at(0.0, lambda model=model: simulation.request("many", model))  # type: ignore[misc]
    simulation.at(0.1, lambda: simulation.request("one", "m0"))
    simulation.run()
    assert simulation.waits["one"][0] < 2 * LOAD_S
    assert simulation.num_answered == {"many": 19, "one": 1}


def test_models_in_use_make_way_after_the_patience_and_no_request_is_ended() -> None:
    """With memory for one, two models that are both requested all the time take turns."""
    simulation = Simulation(ResidencyLimits(max_models=1), ["a", "b"])
    for index in range(300):
        name, key = ("a", "x") if index % 2 else ("b", "y")
        simulation.at(index * 0.25, lambda name=name, key=key: simulation.request(key, name))  # type: ignore[misc]
    simulation.run()
    assert simulation.num_answered == {"x": 150, "y": 150}
    assert max(max(waits) for waits in simulation.waits.values()) < 2 * (PATIENCE_S + LOAD_S + RUN_S)


def test_a_pinned_model_is_never_unloaded() -> None:
    models = [f"m{index}" for index in range(4)]
    simulation = Simulation(ResidencyLimits(max_models=2), models, pinned=["m0"])
    for index in range(40):
        model = models[1 + index % 3]
        simulation.at(index * 10.0, lambda model=model: simulation.request("", model))  # type: ignore[misc]
    simulation.run()
    assert simulation.num_loads["m0"] == 0
    assert "m0" in simulation.policy.loaded

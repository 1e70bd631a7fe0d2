"""Which models are in memory, on a simulated clock: the order of loads and unloads, and what is never unloaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from service.deployment.residency.policy import (
    FAILURE_S,
    PATIENCE_S,
    ResidencyLimits,
    ResidencyPolicy,
    ResidencyStep,
)
from service.deployment.residency.resident_model import CLAIM_S, MAX_CLAIMS, ResidentModel
from tests.engine.fakes import Clock

FIVE = ResidencyLimits(max_models=5)


@dataclass
class Loaded:
    """A policy with models that are loaded, of one byte each."""

    limits: ResidencyLimits
    names: Sequence[str]
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.policy = ResidencyPolicy(self.limits, self.clock)
        for name in self.names:
            self.policy.add(name, 1, is_pinned=False)

    def use(self, name: str, key: str = "") -> None:
        """Make a request that ends at once, a second later."""
        self.clock.now += 1.0
        self.policy.release(self.policy.hold(name, key))


def test_bytes_limit_what_is_loaded_at_once() -> None:
    scene = Loaded(ResidencyLimits(max_bytes=10), ["a", "b"])
    scene.policy.add("big", 9, is_pinned=False)
    scene.policy.record_unloaded("big")
    scene.use("a")
    scene.policy.hold("big", "")
    assert scene.policy.next_step() == ResidencyStep("b", is_load=False)
    scene.policy.record_unloaded("b")
    assert scene.policy.next_step() == ResidencyStep("big", is_load=True)


def test_a_model_larger_than_what_the_pinned_ones_leave_can_never_fit() -> None:
    scene = Loaded(ResidencyLimits(max_bytes=10), ["a"])
    scene.policy.pin("a")
    for name, num_bytes in (("fits", 9), ("large", 10)):
        scene.policy.add(name, num_bytes, is_pinned=False)
        scene.policy.record_unloaded(name)
    assert [scene.policy.unfit_reason(name) for name in ("fits", "large")] == [
        None, "it has 10 bytes and the pinned models 1; max_loaded_bytes is 10",
    ]  # fmt: skip


def test_an_idle_model_is_unloaded_when_its_time_has_passed() -> None:
    scene = Loaded(ResidencyLimits(idle_s=60), ["a", "b"])
    running = scene.policy.hold("b", "")
    assert scene.policy.next_step() is None
    assert scene.policy.due_in_s() == 60
    scene.clock.now += 60
    assert scene.policy.next_step() == ResidencyStep("a", is_load=False)
    scene.policy.record_unloaded("a")
    assert scene.policy.next_step() is None, "a model in use is not idle"
    scene.policy.release(running)
    assert scene.policy.due_in_s() == 60


@pytest.mark.parametrize(
    ("idle_s", "wishes", "expires_in_s"),
    [
        (None, [("k", None)], None),
        (60, [("k", None)], 60),
        (60, [("k", 5)], 5),
        (60, [("k", 3600)], 60),
        (60, [("k", math.inf)], 60),
        (None, [("k", math.inf)], None),
        (None, [("k", 3600)], 3600),
        (None, [("k", 3600), ("k", 0)], 0),
        (None, [("k", 0), ("k", None)], None),
        (None, [("other", 30), ("k", 0)], 30),
        (None, [("other", None), ("k", 0)], CLAIM_S),
        (60, [("other", None), ("k", 0)], 60),
        (None, [("k", 0), ("other", None)], None),
    ],
)
def test_a_model_stays_as_long_as_its_keys_want_and_the_operator_allows(
    idle_s: float | None, wishes: Sequence[tuple[str, float | None]], expires_in_s: float | None
) -> None:
    """The newest wish of each key counts, and one key's never shortens another's time."""
    scene = Loaded(ResidencyLimits(max_models=5, idle_s=idle_s), ["a"])
    for key, keep_s in wishes:
        scene.policy.release(scene.policy.hold("a", key, keep_s))
    assert scene.policy.expires_in_s("a") == expires_in_s
    assert scene.policy.due_in_s() == expires_in_s
    if expires_in_s is not None:
        scene.clock.now += expires_in_s
        assert scene.policy.next_step() == ResidencyStep("a", is_load=False)


def test_the_claims_of_a_model_are_limited() -> None:
    """Keys of an issuer of tokens may be any number; the newest are kept."""
    model = ResidentModel(1, is_pinned=False)
    for number in range(MAX_CLAIMS + 9):
        model.claim(str(number), number, None)
    assert len(model.claims) == MAX_CLAIMS
    assert next(iter(model.claims)) == "9"


def test_a_wish_neither_ends_requests_nor_moves_a_pinned_model() -> None:
    scene = Loaded(FIVE, ["a", "pinned"])
    scene.policy.pin("pinned")
    running = [scene.policy.hold(name, "k") for name in ("a", "pinned")]
    for hold in running:
        scene.policy.let_go(hold.model, "k")
        scene.policy.let_go(hold.model, "other")
    assert scene.policy.next_step() is None
    for hold in running:
        scene.policy.release(hold)
    assert scene.policy.expires_in_s("pinned") is None
    assert scene.policy.next_step() == ResidencyStep("a", is_load=False)
    scene.policy.record_unloaded("a")
    assert scene.policy.next_step() is None


def test_a_failed_load_is_not_repeated_before_its_time() -> None:
    scene = Loaded(FIVE, ["a"])
    scene.policy.record_unloaded("a")
    hold = scene.policy.hold("a", "")
    assert scene.policy.next_step() == ResidencyStep("a", is_load=True)
    scene.policy.record_failed("a")
    scene.policy.release(hold)
    assert scene.policy.failed_for_s("a") == FAILURE_S
    scene.clock.now += FAILURE_S
    scene.policy.hold("a", "")
    assert scene.policy.next_step() == ResidencyStep("a", is_load=True)


def test_a_model_that_its_key_has_left_alone_is_unloaded_first() -> None:
    """A claim ends: otherwise a model that was used once would take another key's memory for good."""
    scene = Loaded(ResidencyLimits(max_models=2), ["old", "a", "b"])
    scene.policy.record_unloaded("b")
    scene.use("old", "gone")
    scene.clock.now += CLAIM_S
    scene.use("a", "k")
    scene.policy.hold("b", "k")
    assert scene.policy.next_step() == ResidencyStep("old", is_load=False)


def test_nothing_is_unloaded_for_a_request_that_has_left() -> None:
    """The model that was to make way takes requests again."""
    scene = Loaded(ResidencyLimits(max_models=1), ["a", "b"])
    scene.policy.record_unloaded("b")
    scene.policy.hold("a", "")
    waiting = scene.policy.hold("b", "")
    scene.clock.now += PATIENCE_S
    assert scene.policy.next_step() is None
    held = scene.policy.hold("a", "")
    assert not held.is_running
    scene.policy.release(waiting)
    assert scene.policy.next_step() is None
    assert held.is_running

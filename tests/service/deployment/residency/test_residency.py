"""Requests that wait for a model: how each wait ends. The test takes the steps of the reconciler."""

from __future__ import annotations

import asyncio

import pytest

from service.deployment.residency.policy import ResidencyLimits
from service.deployment.residency.residency import MAX_WAITING, Residency
from service.generation.caller import ANONYMOUS
from service.generation.errors import EngineAsleep, EngineClosed, EngineOverloaded, ServiceError
from service.registry.errors import ModelNotFound, ModelNotLoaded
from tests.engine.fakes import Clock, until

LIMITS = ResidencyLimits(max_models=1)


async def use(residency: Residency, name: str = "a") -> str:
    """Hold a model, and return its name."""
    async with residency.held(name, ANONYMOUS, None):
        return name


def unloaded(name: str = "a") -> Residency:
    """Return a residency with one model that is not loaded."""
    residency = Residency(LIMITS)
    residency.add(name, 1, is_pinned=False)
    residency.record_unloaded(name)
    return residency


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda residency: residency.remove("a"), ModelNotFound),
        (lambda residency: residency.set_asleep({"a"}), EngineAsleep),
        (lambda residency: residency.record_failed("a"), ModelNotLoaded),
        (lambda residency: residency.close(), EngineClosed),
    ],
)
async def test_a_wait_ends_with_the_error_of_what_ended_it(end: object, error: type[ServiceError]) -> None:
    """Nothing is loaded for the request afterwards."""
    residency = unloaded()
    waiting = asyncio.create_task(use(residency))
    await until(lambda: residency.must_wait("a") and residency.next_step() is not None)
    end(residency)  # type: ignore[operator]
    with pytest.raises(error):
        await waiting
    assert residency.next_step() is None


async def test_the_wait_of_a_request_is_that_for_the_load() -> None:
    clock = Clock()
    residency = Residency(LIMITS, clock=clock)
    residency.add("a", 1, is_pinned=False, is_loaded=False)
    waits: list[float] = []

    async def wait() -> None:
        async with residency.held("a", ANONYMOUS, None) as waited_s:
            waits.append(waited_s)

    waiting = asyncio.create_task(wait())
    await until(lambda: residency.next_step() is not None)
    clock.now += 7.5
    residency.record_loaded("a")
    await waiting
    await wait()
    assert waits == [7.5, 0.0]


async def test_a_request_that_leaves_while_it_waits_needs_no_load() -> None:
    residency = unloaded()
    waiting = asyncio.create_task(use(residency))
    await until(lambda: residency.next_step() is not None)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert residency.next_step() is None


async def test_an_adapters_request_holds_its_model() -> None:
    residency = unloaded()
    waiting = asyncio.create_task(use(residency, "a:adapter"))
    await until(lambda: residency.next_step() is not None)
    residency.record_loaded("a")
    assert await waiting == "a:adapter"


async def test_requests_above_the_limit_are_rejected() -> None:
    residency = unloaded()
    waiting = [asyncio.create_task(use(residency)) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(EngineOverloaded, match=f"{MAX_WAITING} requests wait"):
        await use(residency)
    residency.record_loaded("a")
    await asyncio.gather(*waiting)


async def test_a_load_for_an_operator_unloads_no_model_in_use() -> None:
    residency = Residency(LIMITS)
    residency.add("a", 1, is_pinned=False)
    assert residency.victim_for("new") == "a"
    async with residency.held("a", ANONYMOUS, None):
        with pytest.raises(EngineOverloaded, match="every loaded model is in use or pinned"):
            residency.victim_for("new")


async def test_without_limits_nothing_waits() -> None:
    residency = Residency()
    residency.add("a", 1, is_pinned=False)
    assert await use(residency) == "a"
    assert residency.next_step() is None


async def test_a_model_that_exceeds_the_limit_alone_says_so() -> None:
    residency = Residency(ResidencyLimits(max_bytes=10))
    for name, num_bytes in (("fits", 10), ("large", 11)):
        residency.add(name, num_bytes, is_pinned=False)
    assert residency.unfit_reason("fits") is None
    assert "the model 'large' exceeds max_loaded_models or max_loaded_bytes" in (residency.unfit_reason("large") or "")

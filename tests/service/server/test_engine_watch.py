"""Engines that have ended because their files have changed: each is reloaded once, and the watch waits meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from service.generation.errors import EngineFailed, ModelChanged
from service.server.engine_watch import EngineDied, EngineWatch

NUM_TURNS = 100  # of the event loop


class Watched:
    """Engines by the names of their models, and the reloads that the watch requests."""

    def __init__(self, *names: str) -> None:
        self.engines = {
            name: SimpleNamespace(
                failed=asyncio.get_running_loop().create_future(), heartbeat_age_s=0.0, is_suspended=False, pid=None
            )
            for name in names
        }
        self.reloads: list[str] = []

    async def ignore(self, _: object) -> None:
        """Take a state of the service's health."""

    def watch(self) -> asyncio.Task[None]:
        """Begin to watch, and return the task."""
        loaded = [SimpleNamespace(name=name, engine=engine) for name, engine in self.engines.items()]
        registry: Any = SimpleNamespace(loaded=loaded, loads={})
        health: Any = SimpleNamespace(enter=self.ignore, set_stalled=self.ignore, set_models=self.ignore)
        reconciler: Any = SimpleNamespace(request_reload=self.reloads.append)
        settings: Any = SimpleNamespace(max_heartbeat_age_s=60, max_stall_s=60)
        return asyncio.create_task(EngineWatch(registry, health, reconciler, settings).run())


@pytest.mark.parametrize("names", [["a"], ["a", "b"]], ids=["alone", "with another model"])
@pytest.mark.parametrize("is_early", [False, True])
async def test_changed_model_is_reloaded_once(names: list[str], *, is_early: bool) -> None:
    """Its engine may also have ended between two checks."""
    watched = Watched(*names)
    failed = watched.engines["a"].failed
    if is_early:
        failed.set_result(ModelChanged("its files have changed"))
    task = watched.watch()
    await asyncio.sleep(0)
    if not is_early:
        failed.set_result(ModelChanged("its files have changed"))
    for _ in range(NUM_TURNS):
        await asyncio.sleep(0)
    assert watched.reloads == ["a"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_engine_that_dies_during_a_reload_ends_the_watch() -> None:
    watched = Watched("a", "b")
    watched.engines["a"].failed.set_result(ModelChanged("its files have changed"))
    task = watched.watch()
    for _ in range(NUM_TURNS):
        await asyncio.sleep(0)
    watched.engines["b"].failed.set_result(EngineFailed("the process died"))
    with pytest.raises(EngineDied):
        await task

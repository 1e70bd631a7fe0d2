"""Adapters that are loaded again after their engine's process has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from service.engine.client.adapters import Adapters
from service.engine.interface.messages import Command, LoadAdapter, Output
from service.generation.adapter import AdapterLoaded
from service.generation.errors import AdapterLost, AdapterRejected
from tests.engine.fakes import config_of, until

FOLDER = Path("/secret/french")


async def test_the_reason_of_a_lost_adapter_has_its_path_in_the_log_only(caplog: pytest.LogCaptureFixture) -> None:
    async def call(command: Callable[[int], Command]) -> Output:
        load = command(0)
        assert isinstance(load, LoadAdapter)
        if load.digest:
            raise AdapterRejected(f"{load.folder}/adapter_config.json can't be read")
        return AdapterLoaded(rank=1, num_parameters=1, digest="d")

    adapters = Adapters(config_of(max_adapters=1), call)
    await adapters.load("french", FOLDER)
    adapters.load_again()
    await until(lambda: str(FOLDER) in caplog.text)
    with pytest.raises(AdapterLost) as lost:
        adapters.check("french")
    assert str(FOLDER) not in str(lost.value)
    assert str(lost.value).endswith(": adapter_config.json can't be read")


async def test_an_adapter_that_was_dropped_meanwhile_is_not_lost_when_it_is_loaded_again() -> None:
    """The engine's commands are answered in their order: the second load ends after the failure of the first."""
    may_fail = asyncio.Event()

    async def call(command: Callable[[int], Command]) -> Output:
        load = command(0)
        if isinstance(load, LoadAdapter) and load.digest:
            await may_fail.wait()
            raise AdapterRejected("its files have changed")
        return AdapterLoaded(rank=1, num_parameters=1, digest="d")

    adapters = Adapters(config_of(max_adapters=1), call)
    await adapters.load("french", FOLDER)
    adapters.load_again()
    await adapters.drop("french", is_down=False)
    may_fail.set()
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    await adapters.load("french", FOLDER)
    adapters.check("french")

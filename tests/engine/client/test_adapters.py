"""Adapters that are loaded again after their engine's process has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from service.engine.client.adapters import Adapters
from service.engine.interface.messages import Command, LoadAdapter, Output
from service.generation.adapter import AdapterLoaded
from service.generation.errors import AdapterLost, AdapterRejected
from tests.engine.fakes import config_of, until

FOLDER = Path("/secret/french")


async def test_the_reason_of_a_lost_adapter_is_logged_but_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    """It may have paths of the server."""

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
    assert "its files have changed or can't be read" in str(lost.value)

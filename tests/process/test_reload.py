"""Settings that are read again: by the signal and by the file, whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
from pydantic_settings import SettingsConfigDict

from process.settings.errors import ConfigError
from process.settings.process_settings import ProcessSettings, read_settings
from process.settings.reload import Reload
from tests.waiting import GUARD_S

pytestmark = pytest.mark.slow


class Lamp(ProcessSettings):
    """A process that can change its colour as it runs."""

    model_config = SettingsConfigDict(env_prefix="SLUICE_SERVICE_", cli_prog_name="lamp")

    colour: str = "white"
    watts: int = 5


@pytest.fixture(autouse=True)
def _root_level() -> Iterator[None]:
    """The root logger's level, as it was afterwards."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(level)


@contextlib.asynccontextmanager
async def following(*arguments: str) -> AsyncIterator[list[Lamp]]:
    """What is taken over, one after the other; a black lamp is refused."""
    taken: list[Lamp] = []

    def apply(new: Lamp) -> None:
        if new.colour == "black":
            raise ConfigError("colour: black is no light")
        taken.append(new)

    read = partial(read_settings, Lamp, arguments)
    reload = Reload(read(), read)
    task = asyncio.create_task(reload.follow(apply, ("colour",)))
    try:
        yield taken
    finally:
        task.cancel()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


async def until_logged(caplog: pytest.LogCaptureFixture, text: str) -> logging.LogRecord:
    """The first line of that beginning."""
    async with asyncio.timeout(GUARD_S):
        while True:
            for record in caplog.records:
                if record.getMessage().startswith(text):
                    return record
            await asyncio.sleep(0.01)


async def test_the_signal_has_them_read_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also without a file; what can't change as it runs is named."""
    async with following() as taken:
        monkeypatch.setenv("SLUICE_SERVICE_COLOUR", "red")
        monkeypatch.setenv("SLUICE_SERVICE_WATTS", "7")
        os.kill(os.getpid(), signal.SIGHUP)
        waiting = await until_logged(caplog, "settings wait for the next start")
    assert [each.colour for each in taken] == ["red"]
    assert getattr(waiting, "fields", None) == {"waiting": ["watts"]}


async def test_the_file_is_watched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A new one is taken, with its log level; flags win as at the start."""
    path = tmp_path / "lamp.yaml"
    path.write_text("colour: white")
    async with following("--config", str(path), "--watts", "9") as taken:
        path.write_text("colour: blue\nwatts: 3\nlog_level: warning\n")
        while not taken:  # noqa: ASYNC110  the file is looked at now and then
            await asyncio.sleep(0.01)
        assert logging.getLogger().level == logging.WARNING
    assert (taken[0].colour, taken[0].watts) == ("blue", 9)
    assert "wait for" not in caplog.text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("colour: [", "config: "),
        ("color: red", "color: unknown setting"),
        ("colour: black", "colour: black is no light"),
    ],
)
async def test_what_cannot_be_used_changes_nothing(
    text: str, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says why, once; the next that can be used is taken."""
    path = tmp_path / "lamp.yaml"
    path.write_text("colour: white")
    async with following("--config", str(path)) as taken:
        path.write_text(text)
        refusal = await until_logged(caplog, "the settings can't be used; those before stay: ")
        assert told in refusal.getMessage()
        assert not taken
        path.write_text("colour: green")
        while not taken:  # noqa: ASYNC110  the file is looked at now and then
            await asyncio.sleep(0.01)
    assert taken[0].colour == "green"

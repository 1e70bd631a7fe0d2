"""Reload of settings by the signal and by the file, completely or not at all."""

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
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from process.errors import ConfigError
from process.settings.process_settings import ProcessSettings, read_settings
from process.settings.reload import Reload
from process.settings.setting import ON_RELOAD
from tests.waiting import GUARD_S

pytestmark = pytest.mark.slow


class Lamp(ProcessSettings):
    """A process that can change its colour while it runs."""

    model_config = SettingsConfigDict(env_prefix="SLUICE_SERVICE_", cli_prog_name="lamp")

    colour: str = Field("white", json_schema_extra=ON_RELOAD)
    watts: int = 5


@pytest.fixture(autouse=True)
def _root_level() -> Iterator[None]:
    """Restore the root logger's level afterwards."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(level)


@contextlib.asynccontextmanager
async def following(*arguments: str) -> AsyncIterator[list[Lamp]]:
    """Yield the list of applied settings; black is rejected."""
    taken: list[Lamp] = []

    def apply(new: Lamp) -> None:
        if new.colour == "black":
            raise ConfigError("colour: black is no light")
        taken.append(new)

    read = partial(read_settings, Lamp, arguments)
    reload = Reload(read(), read)
    task = asyncio.create_task(reload.follow(apply))
    try:
        yield taken
    finally:
        task.cancel()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


def rewrite(path: Path, text: str) -> None:
    """Replace the file, whose time of change may be that of a version of the same length written just before."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


async def until_logged(caplog: pytest.LogCaptureFixture, text: str) -> logging.LogRecord:
    """Return the first record that starts with the text."""
    async with asyncio.timeout(GUARD_S):
        while True:
            for record in caplog.records:
                if record.getMessage().startswith(text):
                    return record
            await asyncio.sleep(0.01)


async def test_sighup_reloads_without_a_file(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The signal reloads without a file too, and settings that need a restart are logged."""
    async with following() as taken:
        monkeypatch.setenv("SLUICE_SERVICE_COLOUR", "red")
        monkeypatch.setenv("SLUICE_SERVICE_WATTS", "7")
        os.kill(os.getpid(), signal.SIGHUP)
        waiting = await until_logged(caplog, "changed settings take effect at the next start")
    assert [each.colour for each in taken] == ["red"]
    assert getattr(waiting, "fields", None) == {"waiting": ["watts"]}


async def test_changed_file_is_applied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A changed file is applied, with its log level; flags still override it."""
    path = tmp_path / "lamp.yaml"
    path.write_text("colour: white")
    async with following("--config", str(path), "--watts", "9") as taken:
        rewrite(path, "colour: blue\nwatts: 3\nlog_level: warning\n")
        while not taken:  # noqa: ASYNC110  the file is checked periodically
            await asyncio.sleep(0.01)
        assert logging.getLogger().level == logging.WARNING
    assert (taken[0].colour, taken[0].watts) == ("blue", 9)
    assert "wait for" not in caplog.text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("colour: [", "config: "),
        ("color: red", "color: unknown setting"),
        ("colour: black", "colour: black is no light"),
    ],
)
async def test_invalid_settings_change_nothing(
    text: str, problem: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line has the reason, and the next valid file is applied."""
    path = tmp_path / "lamp.yaml"
    path.write_text("colour: white")
    async with following("--config", str(path)) as taken:
        rewrite(path, text)
        warning = await until_logged(caplog, "the settings are invalid; the previous ones stay in use: ")
        assert problem in warning.getMessage()
        assert not taken
        rewrite(path, "colour: green")
        while not taken:  # noqa: ASYNC110  the file is checked periodically
            await asyncio.sleep(0.01)
    assert taken[0].colour == "green"

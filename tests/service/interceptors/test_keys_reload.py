"""A keys file is read again while the service runs, and an unusable one never changes who is admitted."""

import asyncio
from pathlib import Path

import pytest

from process.files.replacement import replace_file
from service.observability.telemetry import Telemetry
from service.server.listener import StartError
from service.server.server import Server
from tests.engine.fakes import until
from tests.service.auth.key_files import write
from tests.service.fakes import Running, request, settings_of
from tests.service.interceptors.guarded import bearing, guarded, outcome
from tests.service.observability.test_observation import samples


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the keys file."""
    return tmp_path / "keys.yaml"


@pytest.mark.slow
async def test_changed_keys_file_is_reloaded_while_serving(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A new key is valid and a removed one is not, without a restart.

    A broken file changes nothing and is logged once.
    """
    async with guarded(path, first={}) as (run, keys):
        first = bearing(keys["first"])
        spoil(path)
        await until(lambda: any("can't be used" in record.message for record in caplog.records))
        assert (await run.chat.Chat(request(), metadata=first)).choices
        second = bearing(write(path, second={})["second"])
        while (rejection := await outcome(run.chat.Chat(request(), metadata=second))) is not None:
            assert rejection == "INVALID_KEY"
        assert await outcome(run.chat.Chat(request(), metadata=first)) == "INVALID_KEY"
    assert sum("can't be used" in record.message for record in caplog.records) == 1


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "keys: [{expires: 2027-02-30}]", "keys: [\x00]", "keys: " + "[" * 2000])
async def test_unusable_keys_file_is_reloaded_again_later(path: Path, text: str) -> None:
    """Keys stay in use while their file is unusable, a metric reports it, and a later revocation takes effect."""
    async with guarded(path, team={}) as (run, keys):
        call = bearing(keys["team"])
        await asyncio.to_thread(path.write_text, text)
        await until(lambda: stale(run) == [1])
        assert await outcome(run.chat.Chat(request(), metadata=call)) is None
        await asyncio.to_thread(path.write_text, "keys: []")
        await until(lambda: stale(run) == [0])
        assert await outcome(run.chat.Chat(request(), metadata=call)) == "INVALID_KEY"


def stale(run: Running) -> list[float]:
    """Return the values of the metric of unusable keys."""
    return list(samples(run, "sluice_auth_keys_stale").values())


def spoil(path: Path) -> None:
    """Replace the file by invalid YAML, at once: the service must not read a part of it."""
    replace_file(path, "keys: [nonsense")


def test_unusable_keys_file_fails_the_start(path: Path) -> None:
    """An unusable file fails the start with its path."""
    spoil(path)
    telemetry = Telemetry(None)
    with pytest.raises(StartError, match=f"^auth.keys_file: {path}: "):
        Server(settings_of(auth={"keys_file": path}), telemetry)
    telemetry.shutdown()

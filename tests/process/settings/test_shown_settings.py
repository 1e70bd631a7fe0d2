"""The shown value and source of each setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import SettingsConfigDict

from process.settings.process_settings import ProcessSettings
from process.settings.shown_settings import shown_settings


class Lock(BaseModel):
    """A nested class of settings."""

    model_config = ConfigDict(extra="forbid")

    code: str | None = Field(None, repr=False)
    url: str = "https://lock.example"
    is_open: bool = False


class House(ProcessSettings):
    """Settings of every shape."""

    model_config = SettingsConfigDict(env_prefix="SLUICE_SERVICE_", cli_prog_name="house")

    port: int = 1
    door_count: int = 2
    front: Lock = Field(Lock())
    locks: list[Lock] = Field([])
    model: dict[str, str] = Field({})


def shown(*flags: str) -> dict[str, tuple[Any, str]]:
    """Return value and source by name."""
    return {each.name: (each.value, each.source) for each in shown_settings(House, flags)}


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)


def test_each_value_is_shown_with_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags, variables, a file and OpenTelemetry's variable may apply at once, also within one class."""
    file = tmp_path / "a.yaml"
    file.write_text("port: 5\ndoor_count: 6\nfront: {url: 'https://file.example'}\nlocks: [{is_open: true}]")
    monkeypatch.setenv("SLUICE_SERVICE_PORT", "7")
    monkeypatch.setenv("SLUICE_SERVICE_FRONT__CODE", "1234")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:1")
    found = shown(f"--config={file}", "--front.is-open", "--model=a=/a")
    assert found["config"] == (str(file), "flag --config")
    assert found["port"] == (7, "variable SLUICE_SERVICE_PORT")
    assert found["door_count"] == (6, f"file {file}")
    assert found["front.url"] == ("https://file.example", f"file {file}")
    assert found["front.code"] == ("(hidden)", "variable SLUICE_SERVICE_FRONT__CODE")
    assert found["front.is_open"] == (True, "flag --front.is-open")
    assert found["locks.0.is_open"] == (True, f"file {file}")
    assert found["locks.0.code"] == (None, "default")
    assert found["model.a"] == ("/a", "flag --model")
    assert found["otlp_endpoint"] == ("collector:1", "variable OTEL_EXPORTER_OTLP_ENDPOINT")
    assert found["log_level"] == ("info", "default")


def test_source_is_named_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is named as given: the variable of a whole class, or the negated flag."""
    monkeypatch.setenv("SLUICE_SERVICE_FRONT", '{"url": "https://whole.example"}')
    found = shown("--no-front.is-open")
    assert found["front.url"] == ("https://whole.example", "variable SLUICE_SERVICE_FRONT")
    assert found["front.is_open"] == (False, "flag --no-front.is-open")


def test_secrets_are_hidden_everywhere() -> None:
    """Secret fields, also in lists, and the credentials of a URL are hidden."""
    found = shown('--locks=[{"code": "77", "url": "redis://user:w@rd@host/1"}]')
    assert found["locks.0.code"][0] == "(hidden)"
    assert found["locks.0.url"][0] == "redis://(hidden)@host/1"

"""Every boolean setting works as a flag, as a variable, and in the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_settings import BaseSettings

from gateway.settings.config import Settings as GatewaySettings
from process.errors import ConfigError
from process.settings.names import field_at, paths
from process.settings.process_settings import ProcessSettings, read_settings
from runner.settings import Settings as RunnerSettings
from service.settings.config import Settings as ServiceSettings

KINDS: tuple[type[BaseSettings], ...] = (ServiceSettings, GatewaySettings, RunnerSettings)
NEEDS: dict[str, dict[str, Any]] = {  # settings that another one requires
    "auth.keys_in_store": {"store": {"redis_url": "redis://127.0.0.1:1"}},
}


def boolean_settings() -> Iterator[Any]:
    for kind in KINDS:
        for path in paths(kind):
            if field_at(kind, path).annotation is bool:
                yield pytest.param(kind, path, id=f"{kind.__module__}-{'.'.join(path)}")


SETTINGS = list(boolean_settings())


def value_at(settings: Any, path: tuple[str, ...]) -> object:
    for name in path:
        settings = getattr(settings, name)
    return settings


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)


def needed_variables(kind: type[BaseSettings], path: tuple[str, ...]) -> dict[str, str]:
    prefix = str(kind.model_config["env_prefix"])
    return {prefix + name.upper(): json.dumps(value) for name, value in NEEDS.get(".".join(path), {}).items()}


@pytest.mark.parametrize(("kind", "path"), SETTINGS)
def test_flag(kind: type[BaseSettings], path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag accepts `--name`, `--name true`, `--name=true`, and `--no-name`, `--name false`, `--name=false`."""
    for name, text in needed_variables(kind, path).items():
        monkeypatch.setenv(name, text)
    flag = ".".join(path).replace("_", "-")
    for arguments in ([f"--{flag}"], [f"--{flag}", "true"], [f"--{flag}=true"], [f"--{flag}=True"]):
        assert value_at(read_settings(kind, arguments), path) is True, arguments
    for arguments in ([f"--no-{flag}"], [f"--{flag}", "false"], [f"--{flag}=false"]):
        assert value_at(read_settings(kind, arguments), path) is False, arguments


@pytest.mark.parametrize(("kind", "path"), SETTINGS)
def test_variable(kind: type[BaseSettings], path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable accepts `true` and `false`."""
    for name, text in needed_variables(kind, path).items():
        monkeypatch.setenv(name, text)
    for text, value in (("true", True), ("false", False)):
        monkeypatch.setenv(f"{kind.model_config['env_prefix']}{'__'.join(path)}".upper(), text)
        assert value_at(read_settings(kind, []), path) is value


@pytest.mark.parametrize(("kind", "path"), SETTINGS)
@pytest.mark.parametrize("value", [True, False])
def test_file(kind: type[BaseSettings], path: tuple[str, ...], value: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """The setting is a key of the file that `config` names; the runner has no file."""
    if not issubclass(kind, ProcessSettings):
        return
    content: Any = value
    for name in reversed(path):
        content = {name: content}
    for name, needed in NEEDS.get(".".join(path), {}).items():
        content.setdefault(name, needed)
    file = tmp_path / "settings.yaml"
    file.write_text(json.dumps(content))  # JSON is valid YAML
    assert value_at(read_settings(kind, [f"--config={file}"]), path) is value


@pytest.mark.parametrize("kind", KINDS)
def test_flag_with_another_value_is_named(kind: type[BaseSettings]) -> None:
    """Only `true` and `false` are values of such a flag; another word after it is a separate argument."""
    flag = "--allow-anonymous" if kind is RunnerSettings else "--auth.allow-anonymous"
    with pytest.raises(ConfigError) as caught:
        read_settings(kind, [f"{flag}=perhaps"])
    assert str(caught.value) == f"{flag}: must be true or false (got 'perhaps')"
    with pytest.raises(ConfigError) as caught:
        read_settings(kind, [f"--no-{flag.removeprefix('--')}=false"])
    assert str(caught.value) == f"--no-{flag.removeprefix('--')}: takes no value"


def test_model_after_a_boolean_flag_is_a_model() -> None:
    """`sluice serve --allow-anonymous MODEL` serves the model."""
    settings = read_settings(RunnerSettings, ["--allow-anonymous", "org/model"])
    assert (settings.allow_anonymous, settings.models) == (True, ["org/model"])

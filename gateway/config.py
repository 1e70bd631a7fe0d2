"""The gateway's settings.

Owns the one object that `__main__` reads at start, from flags, `SLUICE_GATEWAY_…` variables and a YAML or TOML file, in
this order of precedence. Nothing else reads the environment.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

PROGRAM = "sluice-gateway"

_MIB = 1 << 20

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ConfigError(Exception):
    """A setting is bad; the text is one line that begins with its name."""


class Settings(BaseSettings):
    """All settings. Times are in seconds."""

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_GATEWAY_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        cli_prog_name=PROGRAM,
        cli_kebab_case=True,
        cli_exit_on_error=False,
        cli_hide_none_type=True,
    )

    config: Path | None = Field(None, description="a YAML or TOML file with these settings")
    host: str = Field("127.0.0.1", min_length=1, description="address of HTTP")
    port: int = Field(8000, ge=0, le=65535, description="port of HTTP; 0 takes a free one")
    target: str = Field("127.0.0.1:50051", min_length=1, description="the service's gRPC address, host:port")

    request_deadline_s: Seconds = Field(600, description="longest time of one generation")
    lookup_deadline_s: Seconds = Field(5, description="longest time to ask for models or health")
    keep_alive_interval_s: Seconds = Field(15, description="longest silence on a stream before a comment is sent")
    idle_timeout_s: int = Field(75, ge=1, description="time after which an idle HTTP connection is closed")
    stop_timeout_s: int = Field(30, ge=0, description="at a stop: time for running requests to end")
    max_body_bytes: int = Field(16 * _MIB, ge=1, description="largest request body")
    max_response_bytes: int = Field(64 * _MIB, ge=1, description="largest message that the service may send")

    otlp_endpoint: str | None = Field(None, description="host:port or URL of an OTLP gRPC collector; none: no export")
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the library's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the library's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _FileSource(settings_cls), _StandardEnvironment(settings_cls)


class _FileSource(InitSettingsSource):
    """What the file says that a stronger source names as `config`."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, init_kwargs={})

    def __call__(self) -> dict[str, Any]:
        path = self.current_state.get("config")
        return _read_file(Path(path)) if path else {}


class _StandardEnvironment(InitSettingsSource):
    """What OpenTelemetry's own variable says."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        endpoint = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        super().__init__(settings_cls, init_kwargs={"otlp_endpoint": endpoint} if endpoint else {})


def read_settings(arguments: Sequence[str]) -> Settings:
    """The settings by the command line's `arguments`, the environment and the file. Raises ConfigError.

    `--help` prints the flags and raises SystemExit(0).
    """
    try:
        return Settings(_cli_parse_args=list(arguments))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{name}: {first['msg']}") from error
    except SettingsError as error:
        raise ConfigError(" ".join(str(error).removeprefix("error parsing CLI: ").split())) from error


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
        values = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise ConfigError(f"config: {path}: {reason}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"config: {path}: it must hold settings by name")
    return values

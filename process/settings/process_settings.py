"""A process's settings: one precedence of sources, and one line for what is wrong.

Flags win over `SLUICE_…` variables, variables over the file that `config` names, the file over OpenTelemetry's own
variable. Unknown names are refused in the first three. Nothing else reads the environment.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import yaml
from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from process.network.tls import TlsSettings
from process.settings.environment import Environment
from process.settings.errors import ConfigError
from process.settings.names import names_at, paths, suggestion

Port: TypeAlias = Annotated[int, Field(ge=0, le=65535)]

STANDARD_VARIABLE: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"  # OpenTelemetry's own

_UNKNOWN = {"extra_forbidden", "unexpected_keyword_argument", "invalid_key"}  # pydantic's error types
_CLASS_TYPES = {"model_type", "dataclass_type"}
_NOT_A_MAPPING = "must be a mapping of settings by name"


class ProcessSettings(BaseSettings):
    """What every process can be told. A subclass adds its fields, `env_prefix` and `cli_prog_name`."""

    model_config = SettingsConfigDict(
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_exit_on_error=False,
        cli_hide_none_type=True,
    )

    config: Path | None = Field(None, description="YAML or TOML file with settings; its keys are the settings' names")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least severe level to log")
    otlp_endpoint: str | None = Field(
        None,
        description="host:port or URL of an OTLP gRPC collector for traces and metrics; "
        "default: OTEL_EXPORTER_OTLP_ENDPOINT, else no export",
    )

    tls: TlsSettings = Field(TlsSettings(), description="the server's certificate; read again when the files change")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the library's signature
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the library's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the library's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, Environment(settings_cls), FileSource(settings_cls), StandardEnvironment(settings_cls)


AnySettings = TypeVar("AnySettings", bound=ProcessSettings)


def read_settings(kind: type[AnySettings], arguments: Sequence[str]) -> AnySettings:
    """The settings by the command line's `arguments`, the environment and the file. Raises ConfigError.

    `--help` prints the flags and raises SystemExit(0).
    """
    try:
        return kind(_cli_parse_args=list(arguments))
    except ValidationError as error:
        raise ConfigError(_complaint(kind, error)) from error
    except SettingsError as error:
        raise ConfigError(_flag_complaint(kind, str(error))) from error


class FileSource(InitSettingsSource):
    """What the file says that a stronger source names as `config`."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, init_kwargs={})

    def __call__(self) -> dict[str, Any]:
        path = self.current_state.get("config")
        return _read_file(Path(path)) if path else {}


class StandardEnvironment(InitSettingsSource):
    """What OpenTelemetry's own variable says."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        endpoint = os.environ.get(STANDARD_VARIABLE)
        super().__init__(settings_cls, init_kwargs={"otlp_endpoint": endpoint} if endpoint else {})


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
        values = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"config: {path}: {_reason(error)}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"config: {path}: {_NOT_A_MAPPING}")
    if "config" in values:
        raise ConfigError(f"config: {path}: a file can't name another file")
    for name in values:
        if not isinstance(name, str):
            raise ConfigError(f"{name}: unknown setting")
    return values


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark) is not None:
        return f"{error.problem} (at line {mark.line + 1}, column {mark.column + 1})"
    return " ".join(str(error).split())


def _complaint(kind: type[ProcessSettings], error: ValidationError) -> str:
    """The first unknown name, which may be why another one is missing; else the first problem that pydantic found."""
    problems = error.errors(include_url=False)
    first = next((each for each in problems if each["type"] in _UNKNOWN), problems[0])
    *place, last = first["loc"] or ("",)
    name = ".".join(map(str, first["loc"]))
    if first["type"] in _UNKNOWN:
        return f"{name}: unknown setting{suggestion(str(last), names_at(kind, place))}"
    text = _NOT_A_MAPPING if first["type"] in _CLASS_TYPES else first["msg"].removeprefix("Value error, ")
    return " ".join((f"{name}: {text}" if name else text).split())


def _flag_complaint(kind: type[ProcessSettings], text: str) -> str:
    """The command line's problem, by the library's text about it."""
    text = " ".join(text.split()).removeprefix("error parsing CLI: ")
    argument = text.removeprefix("unrecognized arguments: ")
    if argument == text:
        return text.removeprefix("argument ").removeprefix("Parsing error encountered for ")
    flag = argument.split()[0].partition("=")[0]
    if not flag.startswith("-"):
        return f"{flag}: unexpected argument"
    known = ("--" + ".".join(path).replace("_", "-") for path in paths(kind))
    return f"{flag}: unknown flag{suggestion(flag, known, '--')}"

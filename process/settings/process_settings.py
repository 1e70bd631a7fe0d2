"""A process's settings: the precedence of their sources, and the errors about invalid ones.

Flags override `SLUICE_…` variables, variables the file that `config` names, the file OpenTelemetry's own variable.
Unknown names in the first three are errors. Nothing else reads the environment.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from process.errors import ConfigError
from process.files.parse_error import parse_error_text
from process.network.tls import TlsSettings
from process.settings.environment import Environment
from process.settings.flags import flag_of, without_boolean_values
from process.settings.names import closest, names_at, paths, suggestion
from process.settings.setting import ON_RELOAD

STANDARD_VARIABLE: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"  # OpenTelemetry's own

_UNKNOWN = {"extra_forbidden", "unexpected_keyword_argument", "invalid_key"}  # pydantic's error types
_MISSING = "missing"
_CLASS_TYPES = {"model_type", "dataclass_type"}
_NOT_A_MAPPING = "must be a mapping of settings by name"


class ProcessSettings(BaseSettings):
    """The settings that every process has. A subclass adds its fields, `env_prefix` and `cli_prog_name`."""

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
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest severity that is logged", json_schema_extra=ON_RELOAD
    )
    otlp_endpoint: str | None = Field(
        None,
        description="host:port or URL of an OTLP gRPC collector that receives traces and metrics; "
        "null: OTEL_EXPORTER_OTLP_ENDPOINT, or no export if that is unset",
    )

    tls: TlsSettings = Field(
        TlsSettings(), description="certificates of the server; the files are read again when they change"
    )

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


AnySettings = TypeVar("AnySettings", bound=BaseSettings)


def read_settings(kind: type[AnySettings], arguments: Sequence[str]) -> AnySettings:
    """Read the settings from the command line's `arguments`, the environment and the file.

    Raise ConfigError with every problem found. `--help` prints the flags and raises SystemExit(0).
    """
    try:
        return kind(_cli_parse_args=without_boolean_values(kind, arguments))
    except ValidationError as error:
        raise ConfigError(*_problems(kind, error)) from error
    except SettingsError as error:
        raise ConfigError(_flag_problem(kind, str(error))) from error


class FileSource(InitSettingsSource):
    """The settings in the file that a stronger source names as `config`."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, init_kwargs={})

    def __call__(self) -> dict[str, Any]:
        path = self.current_state.get("config")
        return _read_file(Path(path)) if path else {}


class StandardEnvironment(InitSettingsSource):
    """The setting in OpenTelemetry's own variable."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        endpoint = os.environ.get(STANDARD_VARIABLE)
        super().__init__(settings_cls, init_kwargs={"otlp_endpoint": endpoint} if endpoint else {})


def _read_file(path: Path) -> dict[str, Any]:
    """Return the values of a YAML or TOML file. Raise ConfigError if it is invalid."""
    try:
        text = path.read_text()
        values = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"config: {path}: {parse_error_text(error)}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"config: {path}: {_NOT_A_MAPPING}")
    if "config" in values:
        raise ConfigError(f"config: {path}: a file can't name another file")
    # A source returns names as text; an unknown one, as the text of any other key is, is reported with the rest.
    return {str(name): value for name, value in values.items()}


def _problems(kind: type[BaseSettings], error: ValidationError) -> Iterator[str]:
    """Yield a line for each problem: first the unknown names, then the rest without what an unknown name explains."""
    found = error.errors(include_url=False)
    explained = set()
    for each in found:
        if each["type"] in _UNKNOWN:
            *path, last = each["loc"]
            meant = closest(str(last), names_at(kind, path))
            explained.add((*path, meant))
            end = "" if meant is None else f"; did you mean {meant}?"
            yield f"{'.'.join(map(str, each['loc']))}: unknown setting{end}"
    for each in found:
        if each["type"] not in _UNKNOWN and not (each["type"] == _MISSING and each["loc"] in explained):
            yield from _other_problems(each)


def _other_problems(error: ErrorDetails) -> Iterator[str]:
    """Yield the line of a problem of one setting; a rule about several may have found several."""
    name = ".".join(map(str, error["loc"]))
    text = _NOT_A_MAPPING if error["type"] in _CLASS_TYPES else error["msg"].removeprefix("Value error, ")
    for line in text.splitlines():
        yield " ".join((f"{name}: {line}" if name else line).split())


def _flag_problem(kind: type[BaseSettings], text: str) -> str:
    """Return the command line's problem, from the library's text about it."""
    text = " ".join(text.split()).removeprefix("error parsing CLI: ")
    argument = text.removeprefix("unrecognized arguments: ")
    if argument == text:
        return text.removeprefix("argument ").removeprefix("Parsing error encountered for ")
    flag = argument.split()[0].partition("=")[0]
    if not flag.startswith("-"):
        return f"{flag}: unexpected argument"
    return f"{flag}: unknown flag{suggestion(flag, map(flag_of, paths(kind)), '--')}"

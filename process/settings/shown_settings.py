"""Show a process's settings: their values without secrets and their sources, or their JSON Schema."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import BaseModel
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from process.errors import ConfigError
from process.lifetime.exit import exit_with
from process.settings.flags import flag_of
from process.settings.json_schema import json_schema
from process.settings.names import is_secret
from process.settings.process_settings import STANDARD_VARIABLE, ProcessSettings, read_settings

Path: TypeAlias = tuple[str | int, ...]

_HIDDEN: Final = "(hidden)"
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s]+(?=@)")  # in a URL, up to its last @
_SOURCES: Final = ("CliSettingsSource", "Environment", "FileSource", "StandardEnvironment")  # by precedence


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """One setting: its dotted name, its value as in JSON, and its source for display, such as `flag --port`."""

    name: str
    value: Any
    source: str


def shown_settings(kind: type[ProcessSettings], arguments: Sequence[str]) -> list[ShownSetting]:
    """Return all settings of a process started with these `arguments`, in the order of --help. Raise ConfigError."""
    values: dict[str, Mapping[str, Any]] = {}
    settings = read_settings(_recording(kind, values), arguments)
    return list(_Reader(kind, values, arguments, settings.config).all(settings))


def show_settings(kind: type[ProcessSettings], program: str, given: Sequence[str]) -> None:
    """Print the settings as a table, with --json as a list, or with --json-schema the schema of their file.

    Invalid settings end the process with a line for each problem and code 2.
    """
    if "--json-schema" in given:
        sys.stdout.write(f"{json.dumps(json_schema(kind), indent=2, ensure_ascii=False)}\n")
        return
    arguments = [argument for argument in given if argument != "--json"]
    try:
        found = shown_settings(kind, arguments)
    except ConfigError as error:
        exit_with(program, error, 2)
    if len(arguments) < len(given):
        rows = [{"name": each.name, "value": each.value, "from": each.source} for each in found]
        sys.stdout.write(f"{json.dumps(rows, indent=2, ensure_ascii=False)}\n")
        return
    texts = [(each.name, json.dumps(each.value, ensure_ascii=False).strip('"'), each.source) for each in found]
    widths = [max(len(row[column]) for row in texts) for column in range(2)]
    for name, value, source in texts:
        sys.stdout.write(f"{name.ljust(widths[0])}  {value.ljust(widths[1])}  {source}\n")


def _recording(kind: type[ProcessSettings], values: dict[str, Mapping[str, Any]]) -> type[ProcessSettings]:
    """Return a class of the same settings that records the values of each source in `values`."""

    class Recorder(InitSettingsSource):
        def __init__(self, settings_cls: type[BaseSettings]) -> None:
            super().__init__(settings_cls, init_kwargs={})

        def __call__(self) -> dict[str, Any]:
            values.update(self.settings_sources_data)
            return {}

    class Recorded(kind):  # type: ignore[valid-type, misc]
        model_config = SettingsConfigDict(cli_prog_name="sluice config [--gateway] [--json | --json-schema]")

        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *args: Any, **kwargs: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (*super().settings_customise_sources(settings_cls, *args, **kwargs), Recorder(settings_cls))

    return Recorded


class _Reader:
    """The values and names of each source."""

    def __init__(
        self,
        kind: type[ProcessSettings],
        values: Mapping[str, Mapping[str, Any]],
        arguments: Sequence[str],
        file: object,
    ) -> None:
        self._kind = kind
        self._values = values
        self._prefix = str(kind.model_config.get("env_prefix", ""))
        self._flags = [each.partition("=")[0] for each in arguments if each.startswith("--")]
        self._variables = {name.upper(): name for name in os.environ}
        self._file = file

    def all(self, settings: BaseModel) -> Iterator[ShownSetting]:
        """Yield every setting that contains no others."""
        for path, value in _leaves((), settings.model_dump(mode="json")):
            yield ShownSetting(".".join(map(str, path)), self._visible(path, value), self._source(path))

    def _visible(self, path: Path, value: Any) -> Any:
        """Return a value to print: secrets and passwords in URLs are hidden."""
        if value is not None and is_secret(self._kind, path):
            return _HIDDEN
        return _CREDENTIALS.sub(_HIDDEN, value) if isinstance(value, str) else value

    def _source(self, path: Path) -> str:
        """Return the source of the value at a path: a flag, a variable, the file or the default."""
        source = next((name for name in _SOURCES if _has(self._values.get(name, {}), path)), None)
        match source:
            case "CliSettingsSource":
                return f"flag {self._flag(path)}"
            case "Environment":
                return f"variable {self._variable(path)}"
            case "FileSource":
                return f"file {self._file}"
            case "StandardEnvironment":
                return f"variable {STANDARD_VARIABLE}"
        return "default"

    def _flag(self, path: Path) -> str:
        """Return the given flag: the setting's own, its negation, or that of a setting that contains it."""
        for length in range(len(path), 0, -1):
            flag = flag_of(path[:length])
            if found := {flag, f"--no-{flag.removeprefix('--')}"}.intersection(self._flags):
                return found.pop()
        return flag_of(path)

    def _variable(self, path: Path) -> str:
        """Return the name of the variable that has set the value at a path."""
        names = [(self._prefix + "__".join(map(str, path[:length]))).upper() for length in range(len(path), 0, -1)]
        return next((self._variables[name] for name in names if name in self._variables), names[0])


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield every single value of nested settings, with its path."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from _leaves((*path, name), each)
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for index, each in enumerate(value):
            yield from _leaves((*path, index), each)
    else:
        yield path, value


def _has(values: Any, path: Path) -> bool:
    """Return True if a source has a value at `path`, or a whole value that contains it."""
    for name in path:
        if isinstance(values, Mapping):
            if name not in values:
                return False
            values = values[name]
        elif isinstance(values, list) and isinstance(name, int):
            values = values[name]
        else:
            return True
    return True

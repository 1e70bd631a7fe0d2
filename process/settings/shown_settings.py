"""A process's settings for display: values and sources, without secrets."""

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

from process.lifetime.exit import exit_with
from process.settings.errors import ConfigError
from process.settings.names import is_secret
from process.settings.process_settings import STANDARD_VARIABLE, ProcessSettings, read_settings

Place: TypeAlias = tuple[str | int, ...]

_HIDDEN: Final = "(hidden)"
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s]+(?=@)")  # of a URL, up to its last @
_SOURCES: Final = ("CliSettingsSource", "Environment", "FileSource", "StandardEnvironment")  # the strongest first


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting: its name with dots, its value as JSON has it, and its origin in words."""

    name: str
    value: Any
    origin: str


def shown_settings(kind: type[ProcessSettings], arguments: Sequence[str]) -> list[Shown]:
    """All settings of a process that is started with these `arguments`, in the order of --help. Raises ConfigError."""
    told: dict[str, Mapping[str, Any]] = {}
    settings = read_settings(_witnessed(kind, told), arguments)
    return list(_Reader(kind, told, arguments, settings.config).all(settings))


def show_settings(kind: type[ProcessSettings], program: str, words: Sequence[str]) -> None:
    """The command: print them as a table, or with --json as a list. Bad settings end it with one line and code 2."""
    arguments = [word for word in words if word != "--json"]
    try:
        found = shown_settings(kind, arguments)
    except ConfigError as error:
        exit_with(program, error, 2)
    if len(arguments) < len(words):
        rows = [{"name": each.name, "value": each.value, "from": each.origin} for each in found]
        sys.stdout.write(f"{json.dumps(rows, indent=2, ensure_ascii=False)}\n")
        return
    texts = [(each.name, json.dumps(each.value, ensure_ascii=False).strip('"'), each.origin) for each in found]
    widths = [max(len(row[column]) for row in texts) for column in range(2)]
    for name, value, origin in texts:
        sys.stdout.write(f"{name.ljust(widths[0])}  {value.ljust(widths[1])}  {origin}\n")


def _witnessed(kind: type[ProcessSettings], told: dict[str, Mapping[str, Any]]) -> type[ProcessSettings]:
    """The same settings, which leave in `told` what each source said."""

    class Witness(InitSettingsSource):
        def __init__(self, settings_cls: type[BaseSettings]) -> None:
            super().__init__(settings_cls, init_kwargs={})

        def __call__(self) -> dict[str, Any]:
            told.update(self.settings_sources_data)
            return {}

    class Witnessed(kind):  # type: ignore[valid-type, misc]
        model_config = SettingsConfigDict(cli_prog_name="sluice config [--gateway] [--json]")

        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *args: Any, **kwargs: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (*super().settings_customise_sources(settings_cls, *args, **kwargs), Witness(settings_cls))

    return Witnessed


class _Reader:
    """What each source said, and how each is called."""

    def __init__(
        self, kind: type[ProcessSettings], told: Mapping[str, Mapping[str, Any]], arguments: Sequence[str], file: object
    ) -> None:
        self._kind = kind
        self._told = told
        self._prefix = str(kind.model_config.get("env_prefix", ""))
        self._flags = [word.partition("=")[0] for word in arguments if word.startswith("--")]
        self._variables = {name.upper(): name for name in os.environ}
        self._file = file

    def all(self, settings: BaseModel) -> Iterator[Shown]:
        """Every value that has no others in it."""
        for place, value in _leaves((), settings.model_dump(mode="json")):
            yield Shown(".".join(map(str, place)), self._visible(place, value), self._origin(place))

    def _visible(self, place: Place, value: Any) -> Any:
        if value is not None and is_secret(self._kind, place):
            return _HIDDEN
        return _CREDENTIALS.sub(_HIDDEN, value) if isinstance(value, str) else value

    def _origin(self, place: Place) -> str:
        source = next((name for name in _SOURCES if _has(self._told.get(name, {}), place)), None)
        match source:
            case "CliSettingsSource":
                return f"flag {self._flag(place)}"
            case "Environment":
                return f"variable {self._variable(place)}"
            case "FileSource":
                return f"file {self._file}"
            case "StandardEnvironment":
                return f"variable {STANDARD_VARIABLE}"
        return "default"

    def _flag(self, place: Place) -> str:
        """The flag that was given: the setting's own, its negation, or one of a setting around it."""
        for length in range(len(place), 0, -1):
            name = ".".join(map(str, place[:length])).replace("_", "-")
            if found := {f"--{name}", f"--no-{name}"}.intersection(self._flags):
                return found.pop()
        return "--" + ".".join(map(str, place)).replace("_", "-")

    def _variable(self, place: Place) -> str:
        names = [(self._prefix + "__".join(map(str, place[:length]))).upper() for length in range(len(place), 0, -1)]
        return next((self._variables[name] for name in names if name in self._variables), names[0])


def _leaves(place: Place, value: Any) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from _leaves((*place, name), each)
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for index, each in enumerate(value):
            yield from _leaves((*place, index), each)
    else:
        yield place, value


def _has(said: Any, place: Place) -> bool:
    """Whether a source named what is at `place`, or something whole around it."""
    for name in place:
        if isinstance(said, Mapping):
            if name not in said:
                return False
            said = said[name]
        elif isinstance(said, list) and isinstance(name, int):
            said = said[name]
        else:
            return True
    return True

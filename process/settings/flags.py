"""Command-line flags of settings that are true or false.

Such a flag takes a value or none: `--name`, `--name true` and `--name=true` set it, `--no-name`, `--name false` and
`--name=false` clear it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from process.errors import ConfigError
from process.settings.names import field_at, paths

_VALUES: Final = {"true": True, "false": False}


def flag_of(path: Sequence[str | int]) -> str:
    """Return the flag of a setting, such as `--engine.block-size`."""
    return "--" + ".".join(map(str, path)).replace("_", "-")


def without_boolean_values(kind: Any, arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `--name` or `--no-name` for every spelling, as the parser takes them.

    Raise ConfigError for another value.
    """
    flags = {flag_of(path) for path in paths(kind) if field_at(kind, path).annotation is bool}
    negations = {f"--no-{flag.removeprefix('--')}": flag for flag in flags}
    found: list[str] = []
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        if argument == "--":
            return [*found, argument, *remaining]
        flag, equals, text = argument.partition("=")
        if flag in negations and equals:
            raise ConfigError(f"{flag}: takes no value")
        if flag in flags:
            if not equals:
                text = remaining.pop(0) if remaining and remaining[0].lower() in _VALUES else "true"
            if text.lower() not in _VALUES:
                raise ConfigError(f"{flag}: must be true or false (got {text!r})")
            argument = flag if _VALUES[text.lower()] else f"--no-{flag.removeprefix('--')}"
        found.append(argument)
    return found

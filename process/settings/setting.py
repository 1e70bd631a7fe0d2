"""The declaration of a setting in a plain dataclass: its description, unit and range, next to its default.

pydantic reads this metadata as it reads the arguments of its own `Field`, so a settings class made from such a
dataclass describes and checks each field without repeating it. No pydantic is needed to read or check the dataclass.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, Final, get_args, get_type_hints

UNIT: Final = "x-unit"  # keyword of the JSON Schema of a setting: what its number counts
RELOAD: Final = "x-reload"  # keyword of the JSON Schema of a setting: true if a running process applies a change
ON_RELOAD: Final[dict[str, Any]] = {RELOAD: True}

_hints_of = cache(get_type_hints)  # evaluating a class's annotations takes longer than the checks

_BOUNDS: Final = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def setting(description: str, unit: str | None = None, **bounds: float) -> dict[str, Any]:
    """Return the metadata of a dataclass field. `bounds` are `ge`, `gt`, `le` and `lt`, as in pydantic."""
    extra = {} if unit is None else {"json_schema_extra": {UNIT: unit}}
    return {"description": description, **bounds, **extra}


def check_ranges(settings: Any) -> None:
    """Raise ValueError, with the field's name, for the first value of a dataclass that its declaration excludes."""
    hints = _hints_of(settings.__class__)
    for each in fields(settings):
        value = getattr(settings, each.name)
        bounds = {name: each.metadata[name] for name in _BOUNDS if name in each.metadata}
        kinds = get_args(hints[each.name]) or (hints[each.name],)
        if not bounds or (value is None and type(None) in kinds):
            continue
        is_whole = int in kinds
        if not _is_number(value, is_whole=is_whole) or not all(
            _holds(name, bound, value) for name, bound in bounds.items()
        ):
            number = "a whole number of " if is_whole else ""
            text = " and ".join(f"{_BOUNDS[name]} {bound}" for name, bound in bounds.items())
            raise ValueError(f"{each.name} must be {number}{text}, not {value!r}")


def _is_number(value: object, *, is_whole: bool) -> bool:
    return isinstance(value, int if is_whole else (int, float)) and not isinstance(value, bool)


def _holds(name: str, bound: float, value: float) -> bool:
    """Return whether a value keeps a bound, named as in JSON Schema's and pydantic's `ge`, `gt`, `le`, `lt`."""
    match name:
        case "ge":
            return value >= bound
        case "gt":
            return value > bound
        case "le":
            return value <= bound
        case _:
            return value < bound

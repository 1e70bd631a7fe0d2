"""The names that a settings class knows, at every depth, and the nearest one to a name that it doesn't know."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic.fields import FieldInfo

_MIN_LIKENESS = 0.75  # `prot` is as near to `port`; less is no help


def paths(kind: Any) -> Iterator[tuple[str, ...]]:
    """Every field of the class `kind` and of the classes in it, by the names on the way; lists are not entered."""
    for name, field in _fields(kind).items():
        yield (name,)
        for below in paths(field.annotation):
            yield (name, *below)


def mappings(kind: Any) -> Iterator[tuple[str, ...]]:
    """Those of `paths` that hold a mapping, which has keys of the caller's choice."""
    for name, field in _fields(kind).items():
        if get_origin(field.annotation) is dict:
            yield (name,)
        for below in mappings(field.annotation):
            yield (name, *below)


def names_at(kind: Any, place: Sequence[str | int]) -> list[str]:
    """The names that the class `kind` knows at `place`, which may lead through lists and mappings."""
    for step in place:
        kind = _inner(kind, step)
    return list(_fields(kind))


def is_secret(kind: Any, place: Sequence[str | int]) -> bool:
    """Whether the class `kind` keeps what is at `place` out of texts: its field, or one around it, has no `repr`."""
    for step in place:
        if isinstance(step, str) and (field := _fields(kind).get(step)) is not None and not field.repr:
            return True
        kind = _inner(kind, step)
    return False


def suggestion(name: str, known: Iterable[str], prefix: str = "") -> str:
    """What to add to a complaint about `name`: the nearest known name, if one is near.

    All names are compared without `prefix`, which would make any two alike.
    """
    rests = [each.removeprefix(prefix) for each in known if each.startswith(prefix)]
    near = difflib.get_close_matches(name.removeprefix(prefix), rests, n=1, cutoff=_MIN_LIKENESS)
    return f"; did you mean {prefix}{near[0]}?" if near else ""


def _inner(kind: Any, step: str | int) -> Any:
    if isinstance(step, str) and (field := _fields(kind).get(step)) is not None:
        return field.annotation
    arguments = get_args(kind)
    return arguments[-1] if arguments and get_origin(kind) in (list, dict) else None


def _fields(kind: Any) -> Mapping[str, FieldInfo]:
    """The fields of a class, and of the class in `X | None`; none of any other type."""
    if get_origin(kind) in (Union, types.UnionType):
        return {name: field for each in get_args(kind) for name, field in _fields(each).items()}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_fields
    if isinstance(kind, type) and is_pydantic_dataclass(kind):
        return cast("Mapping[str, FieldInfo]", kind.__pydantic_fields__)
    return {}

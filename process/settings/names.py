"""The names of a settings class, at every depth, and the known name closest to an unknown one."""

from __future__ import annotations

import difflib
import heapq
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeAlias, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic.fields import FieldInfo

Path: TypeAlias = Sequence[str | int]  # names, and indices of lists

_MIN_SIMILARITY = 0.75  # the similarity of `prot` and `port`; suggestions below it are mostly wrong
_MAX_LENGTH = 128  # of names that are compared: the time of a comparison grows with the square of their lengths
_MAX_COMPARED = 100


def paths(kind: Any) -> Iterator[tuple[str, ...]]:
    """Yield the path of every field of the class `kind` and of the classes nested in it; lists are not entered."""
    for name, field in fields_of(kind).items():
        yield (name,)
        for below in paths(field.annotation):
            yield (name, *below)


def mappings(kind: Any) -> Iterator[tuple[str, ...]]:
    """Yield those of `paths` that hold a mapping, whose keys the operator chooses."""
    for name, field in fields_of(kind).items():
        if get_origin(field.annotation) is dict:
            yield (name,)
        for below in mappings(field.annotation):
            yield (name, *below)


def names_at(kind: Any, path: Path) -> list[str]:
    """Return the names of the class `kind` at `path`, which may pass through lists and mappings."""
    for step in path:
        kind = _inner(kind, step)
    return list(fields_of(kind))


def field_at(kind: Any, path: Path) -> FieldInfo:
    """Return the field at `path`, one of `paths`."""
    *above, last = path
    for step in above:
        kind = _inner(kind, step)
    return fields_of(kind)[str(last)]


def is_secret(kind: Any, path: Path) -> bool:
    """Return True if the value at `path` is secret: its field, or one that contains it, has no `repr`."""
    for step in path:
        if isinstance(step, str) and (field := fields_of(kind).get(step)) is not None and not field.repr:
            return True
        kind = _inner(kind, step)
    return False


def closest(name: str, known: Iterable[str], prefix: str = "") -> str | None:
    """Return the known name that is most similar to `name`, or None if none is similar enough.

    Names are compared without `prefix`, which would make any two similar. A name of more than 128 characters is similar
    to none, and of more than 100 known names those are compared that have the longest beginning in common with it.
    """
    name = name.removeprefix(prefix)
    if len(name) > _MAX_LENGTH:
        return None
    names = [each.removeprefix(prefix) for each in known if each.startswith(prefix)]
    names = [each for each in names if len(each) <= _MAX_LENGTH]
    if len(names) > _MAX_COMPARED:
        names = heapq.nlargest(_MAX_COMPARED, names, key=lambda each: _num_common(name, each))
    found = difflib.get_close_matches(name, names, n=1, cutoff=_MIN_SIMILARITY)
    return f"{prefix}{found[0]}" if found else None


def _num_common(name: str, other: str) -> int:
    """Return the length of the beginning that two names have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False)))


def suggestion(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return the end of an error about `name` that suggests the `closest` known name; empty if there is none."""
    found = closest(name, known, prefix)
    return "" if found is None else f"; did you mean {found}?"


def fields_of(kind: Any) -> Mapping[str, FieldInfo]:
    """Return the fields of a class, and of the class in `X | None`; none of any other type."""
    if get_origin(kind) in (Union, types.UnionType):
        return {name: field for each in get_args(kind) for name, field in fields_of(each).items()}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_fields
    if isinstance(kind, type) and is_pydantic_dataclass(kind):
        return cast("Mapping[str, FieldInfo]", kind.__pydantic_fields__)
    return {}


def _inner(kind: Any, step: str | int) -> Any:
    """Return the type of the value at one step below `kind`, or None if it is unknown."""
    if isinstance(step, str) and (field := fields_of(kind).get(step)) is not None:
        return field.annotation
    arguments = get_args(kind)
    return arguments[-1] if arguments and get_origin(kind) in (list, dict) else None

"""A claim about a server, how it is tried, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

Result = Literal["passed", "failed", "not applicable"]
S = TypeVar("S")
NUMBER = (int, float)
MAX_SEEN = 300  # characters of what was seen


class BrokenError(Exception):
    """The claim doesn't hold; the text says what was seen."""


class InapplicableError(Exception):
    """The claim can't be tried here; the text says why."""


@dataclass(frozen=True)
class Claim(Generic[S]):
    """`attempt` returns what was seen if the claim holds of a server, or raises one of the two errors above.

    `dialects` are those that make it; none stands for all. `where` is the place in the dialect's reference, empty for
    what no document says.
    """

    id: str
    text: str
    where: str
    attempt: Callable[[S], str]
    dialects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """What came of a claim; `reference` is the document and the place in it."""

    id: str
    claim: str
    reference: str
    result: Result
    seen: str


def claims_into(
    claims: list[Claim[S]],
) -> Callable[..., Callable[[Callable[[S], str]], Callable[[S], str]]]:
    """A decorator, `@claim(id, text, where)`, that adds the function it stands on to the list."""

    def claim(
        name: str, text: str, where: str = "", dialects: tuple[str, ...] = ()
    ) -> Callable[[Callable[[S], str]], Callable[[S], str]]:
        def add(attempt: Callable[[S], str]) -> Callable[[S], str]:
            claims.append(Claim(name, text, where, attempt, dialects))
            return attempt

        return add

    return claim


def hold(condition: object, seen: str) -> None:
    """Raise BrokenError with what was seen, unless the condition is true."""
    if not condition:
        raise BrokenError(seen)


def at(value: Any, path: str, kind: type | tuple[type, ...] | None = None) -> Any:
    """What is at a path such as `choices.0.index`; BrokenError if it isn't there, or is of another kind.

    True and false are no numbers.
    """
    found = value
    for name in path.split("."):
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise BrokenError(f"{path} is not there: {told(value)}")
    if kind is None:
        return found
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(found, kinds) or (isinstance(found, bool) and bool not in kinds):
        names = " or ".join("null" if each is type(None) else each.__name__ for each in kinds)
        raise BrokenError(f"{path} is {told(found)}, no {names}")
    return found


def items(value: Any, path: str) -> list[Any]:
    """A list at a path, of one item at least."""
    found: list[Any] = at(value, path, list)
    hold(found, f"{path} is empty: {told(value)}")
    return found


def told(value: object) -> str:
    """A value as JSON, cut."""
    return cut(json.dumps(value, ensure_ascii=False, default=str))


def cut(text: str) -> str:
    """A text of one line and bounded length."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SEEN else text[:MAX_SEEN] + "…"


def parsed(text: str) -> Any:
    """JSON; BrokenError if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        raise BrokenError(f"this is no JSON: {cut(text)!r}") from None


def only(found: Iterable[Any], what: str) -> Any:
    """The only one; BrokenError if there are more or none."""
    listed = list(found)
    hold(len(listed) == 1, f"{len(listed)} times {what} instead of once")
    return listed[0]

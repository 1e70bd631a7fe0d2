"""Claims about a server, and the findings of testing them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

Result = Literal["passed", "failed", "not applicable"]
S = TypeVar("S")
NUMBER = (int, float)
MAX_SEEN = 300  # characters of a finding's observation


class BrokenError(Exception):
    """The claim doesn't hold; the message describes the observation."""


class InapplicableError(Exception):
    """The claim can't be tested on this server; the message gives the reason."""


class UnreachableError(Exception):
    """The server can't be tested at all; the message gives the reason."""


@dataclass(frozen=True)
class Claim(Generic[S]):
    """A claim. `attempt` tests it on a server and returns the observation, or raises BrokenError or InapplicableError.

    `dialects` names the dialects that make the claim; empty means all. `where` is the section of the dialect's
    reference, empty for a claim that no document makes.
    """

    id: str
    text: str
    where: str
    attempt: Callable[[S], str]
    dialects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """The result of testing a claim; `reference` is the document and its section."""

    id: str
    claim: str
    reference: str
    result: Result
    seen: str


def claims_into(
    claims: list[Claim[S]],
) -> Callable[..., Callable[[Callable[[S], str]], Callable[[S], str]]]:
    """Return a decorator, `@claim(id, text, where)`, that adds the decorated function to the list."""

    def claim(
        name: str, text: str, where: str = "", dialects: tuple[str, ...] = ()
    ) -> Callable[[Callable[[S], str]], Callable[[S], str]]:
        def add(attempt: Callable[[S], str]) -> Callable[[S], str]:
            claims.append(Claim(name, text, where, attempt, dialects))
            return attempt

        return add

    return claim


def hold(condition: object, seen: str) -> None:
    """Raise BrokenError with the observation unless the condition is true."""
    if not condition:
        raise BrokenError(seen)


def at(value: Any, path: str, kind: type | tuple[type, ...] | None = None) -> Any:
    """Return the value at a path such as `choices.0.index`. Raise BrokenError if it is missing or of another type.

    Booleans are not numbers.
    """
    found = value
    for name in path.split("."):
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise BrokenError(f"{path} is missing: {shown(value)}")
    if kind is None:
        return found
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(found, kinds) or (isinstance(found, bool) and bool not in kinds):
        names = " or ".join("null" if each is type(None) else each.__name__ for each in kinds)
        raise BrokenError(f"{path} is {shown(found)}, not {names}")
    return found


def items(value: Any, path: str) -> list[Any]:
    """Return the list at a path. Raise BrokenError if it is empty."""
    found: list[Any] = at(value, path, list)
    hold(found, f"{path} is empty: {shown(value)}")
    return found


def shown(value: object) -> str:
    """Return a value as JSON, truncated."""
    return cut(json.dumps(value, ensure_ascii=False, default=str))


def cut(text: str) -> str:
    """Return the text on one line, truncated."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SEEN else text[:MAX_SEEN] + "…"


def parsed(text: str) -> Any:
    """Return parsed JSON. Raise BrokenError for any other text."""
    try:
        return json.loads(text)
    except ValueError:
        raise BrokenError(f"this is not JSON: {cut(text)!r}") from None


def only(found: Iterable[Any], what: str) -> Any:
    """Return the only item. Raise BrokenError if there are none or several."""
    listed = list(found)
    hold(len(listed) == 1, f"found {what} {len(listed)} times instead of once")
    return listed[0]

"""The interface of stores of buckets and slots, in one process or shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from service.quota.bucket import Bucket


@dataclass(frozen=True, slots=True)
class Draw:
    """`num_tokens` to be taken from a bucket, which must hold `at_least` as many, or more."""

    bucket: Bucket
    num_tokens: int
    at_least: int


@dataclass(frozen=True, slots=True)
class Places:
    """What at most `limit` requests may hold at a time; `name` tells them from all others."""

    name: str
    limit: int


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request needs, all or none of it. `holder` names who holds a place, once in all processes."""

    draws: Sequence[Draw] = ()
    places: Sequence[Places] = ()
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """How things stand after a demand: with what was taken, if it was granted, and as they were, if it wasn't.

    `behind_s` has one number for each draw, `num_held` one for each of the places. `give_back` puts a demand's tokens
    back, a negative number takes more, held or not; and frees its places. It returns at once, done or soon to be.
    """

    is_granted: bool
    behind_s: Sequence[float]
    num_held: Sequence[int]
    give_back: Callable[[Demand], None]


class Store(Protocol):
    """Keeps buckets and places by their names. Used on one event loop."""

    async def start(self) -> None:
        """Find out whether it can be used; `take` does without, too."""

    async def take(self, demand: Demand) -> Reading:
        """Take what is demanded if all of it is there, at once for all who share the store."""

    async def close(self) -> None:
        """End what is still on its way."""


class StoreLost(Exception):  # noqa: N818  it says what happened
    """A store that others share can't be used now; the text says why."""

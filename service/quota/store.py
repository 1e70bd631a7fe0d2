"""The interface of stores of buckets and slots, in one process or shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from service.quota.bucket import Bucket


@dataclass(frozen=True, slots=True)
class Draw:
    """`num_tokens` to take from a bucket, which must hold `at_least` tokens."""

    bucket: Bucket
    num_tokens: int
    at_least: int


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots that at most `limit` requests may hold concurrently; `name` is unique."""

    name: str
    limit: int


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of a request, granted completely or not at all. `holder` identifies the request across processes."""

    draws: Sequence[Draw] = ()
    slots: Sequence[Slots] = ()
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """The state after a demand, which includes the demand if it was granted.

    `behind_s` has one number per draw, `num_held` one per set of slots. `give_back` returns the demand's tokens, takes
    more for a negative number, and releases its slots. It returns immediately; the operation may complete later.
    """

    is_granted: bool
    behind_s: Sequence[float]
    num_held: Sequence[int]
    give_back: Callable[[Demand], None]


class Store(Protocol):
    """Stores buckets and slots by their names. Used on one event loop."""

    async def start(self) -> None:
        """Check whether the store is available; optional before `take`."""

    async def take(self, demand: Demand) -> Reading:
        """Take a demand if it can be granted completely, atomically for all users of the store."""

    async def close(self) -> None:
        """Finish pending operations."""


class StoreLost(Exception):  # noqa: N818  a name states the condition
    """A shared store can't be used now; the text has the cause."""

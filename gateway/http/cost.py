"""The cost of an answer, if the client asks: from the service's trailers to a header or the end of a stream.

Each request has one record, found through a context variable by the client, which fills it, and by what sends the
answer. Only the loop's thread touches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

HEADER: Final = "x-sluice-cost"
ASKING: Final = (HEADER, "true")


@dataclass(slots=True)
class Cost:
    """As the service tells it; empty as long as it hasn't."""

    text: str = ""

    def header(self) -> tuple[tuple[bytes, bytes], ...]:
        """For an answer that begins when all is computed."""
        return ((HEADER.encode(), self.text.encode()),) if self.text else ()


_current: ContextVar[Cost | None] = ContextVar("cost", default=None)


def asks_for_cost(headers: Mapping[str, str]) -> bool:
    """Whether a caller wants to be told; names are in lower case."""
    return headers.get(HEADER) == ASKING[1]


def collect_cost() -> Cost:
    """What is told from now on, in this task and those that it starts."""
    cost = Cost()
    _current.set(cost)
    return cost


def note_cost(trailers: Iterable[tuple[str, str | bytes]] | None) -> None:
    """Keep what a call's trailers tell."""
    cost = _current.get()
    for name, value in trailers or ():
        if cost is not None and name == HEADER and isinstance(value, str):
            cost.text = value


def cost_comment() -> bytes:
    """What ends a stream of events for a caller who asked: a comment, which readers of events pass over."""
    cost = _current.get()
    return f": {HEADER}: {cost.text}\n\n".encode() if cost is not None and cost.text else b""

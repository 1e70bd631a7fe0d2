"""Report the cost of an answer on request, in a header or at the end of a stream.

The cost comes from the service's trailers. Each request has one record in a context variable: the service client fills
it, and the response's sender reads it. Used on the event loop's thread only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

HEADER: Final = "x-sluice-cost"
REQUEST_HEADER: Final = (HEADER, "true")


@dataclass(slots=True)
class Cost:
    """The cost as the service reports it; empty until then."""

    text: str = ""

    def header(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return the response header of an unstreamed answer; none if the cost is unknown."""
        return ((HEADER.encode(), self.text.encode()),) if self.text else ()


_current: ContextVar[Cost | None] = ContextVar("cost", default=None)


def requests_cost(headers: Mapping[str, str]) -> bool:
    """Return whether a client requests the cost; the names of headers are in lower case."""
    return headers.get(HEADER) == REQUEST_HEADER[1]


def collect_cost() -> Cost:
    """Begin to collect the cost in this task and its child tasks, and return the record."""
    cost = Cost()
    _current.set(cost)
    return cost


def set_cost(trailers: Iterable[tuple[str, str | bytes]] | None) -> None:
    """Store the cost from a call's trailers."""
    cost = _current.get()
    for name, value in trailers or ():
        if cost is not None and name == HEADER and isinstance(value, str):
            cost.text = value


def cost_comment() -> bytes:
    """Return the final SSE comment with the cost if the client requested it; SSE readers ignore comments."""
    cost = _current.get()
    return f": {HEADER}: {cost.text}\n\n".encode() if cost is not None and cost.text else b""

"""Limit how many readers are woken per turn of an event loop. Used by the event loop only."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

_MAX_PER_TURN = 8


class WakeupLimiter:
    """Sets events in the order of the calls, at most `max_per_turn` per turn of the loop.

    The readers of a full batch take tens of milliseconds for a step's outputs on a small machine. If all of them ran in
    one turn, they would delay each turn of other work by that time, and accepting a call takes about five turns.
    """

    def __init__(self, max_per_turn: int = _MAX_PER_TURN) -> None:
        self._max_per_turn = max_per_turn
        self._num_left = max_per_turn  # in this turn
        self._waiting: OrderedDict[asyncio.Event, None] = OrderedDict()
        self._is_counting = False  # True if `_next_turn` is scheduled

    def wake(self, event: asyncio.Event) -> None:
        """Set the event in this turn, or in one of the next turns if the limit is reached."""
        if event.is_set():
            return
        if self._num_left:
            self._set(event)
        else:
            self._waiting[event] = None

    def _set(self, event: asyncio.Event) -> None:
        """Set an event, and count it against the limit of this turn of the event loop."""
        event.set()
        self._num_left -= 1
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        """Reset the count for a new turn of the event loop, and set the events that wait."""
        self._is_counting = False
        self._num_left = self._max_per_turn
        while self._waiting and self._num_left:
            event, _ = self._waiting.popitem(last=False)
            self._set(event)

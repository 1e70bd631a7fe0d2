"""Limit how many readers are woken per turn of an event loop. Used by the event loop only."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

_MAX_A_TURN = 8


class WakeupLimiter:
    """Sets events, a few in a turn of the loop, in the order in which it was asked.

    What the readers of a full batch do with a step's outputs takes tens of milliseconds on a small machine. In one turn
    it would hold up whatever needs several turns by as much each time: that a call is taken up takes about five.
    """

    def __init__(self, max_a_turn: int = _MAX_A_TURN) -> None:
        self._max_a_turn = max_a_turn
        self._room = max_a_turn  # in this turn
        self._waiting: OrderedDict[asyncio.Event, None] = OrderedDict()
        self._is_counting = False  # whether the end of this turn is awaited

    def wake(self, event: asyncio.Event) -> None:
        """Set it in this turn if there is room, else in one that follows soon."""
        if event.is_set():
            return
        if self._room:
            self._set(event)
        else:
            self._waiting[event] = None

    def _set(self, event: asyncio.Event) -> None:
        event.set()
        self._room -= 1
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_counting = False
        self._room = self._max_a_turn
        while self._waiting and self._room:
            event, _ = self._waiting.popitem(last=False)
            self._set(event)

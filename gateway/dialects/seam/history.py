"""What conversations of other servers and clients need: results matched with calls, and one system message."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from sluice.v1 import content_pb2


@dataclass(slots=True)
class _Call:
    """A call, and whether its result has not yet appeared."""

    id: str
    is_open: bool = True


class OpenCalls:
    """The calls of a conversation whose results have not yet appeared.

    A conversation may have very many: a result is found without a pass over all of them.
    """

    def __init__(self) -> None:
        self._calls: dict[tuple[str, ...], deque[_Call]] = {}  # by id, and all or those without id, also by name
        self._numbers = count(1)

    def new_id(self) -> str:
        """Return an id for a call or a result without one."""
        return f"call_{next(self._numbers)}"

    def add(self, call_id: str | None, name: str) -> str:
        """Return the id of a call; one without an id gets a new one."""
        call = _Call(call_id or self.new_id())
        for key in (("id", call.id), ("all",), ("all", name), *(() if call_id else (("bare",), ("bare", name)))):
            self._calls.setdefault(key, deque()).append(call)
        return call.id

    def answered(self, call_id: str | None, name: str | None) -> str:
        """Return the id of the call that a result belongs to; if there is no such call, its own or an empty one.

        A result belongs to the call with its id, or else to the first one with its name, or else to the first one. A
        result whose id no call has belongs to a call without an id: clients of several APIs drop the ids of calls.
        """
        among = "bare" if call_id else "all"
        for key in (("id", call_id or ""), (among, name or ""), (among,)):
            if (call := self._first(key)) is not None:
                call.is_open = False
                return call.id
        return call_id or ""

    def _first(self, key: tuple[str, ...]) -> _Call | None:
        """Return the first open call under a key."""
        calls = self._calls.get(key, deque())
        while calls and not calls[0].is_open:
            calls.popleft()
        return calls[0] if calls else None


def move_later_to_user(messages: Sequence[content_pb2.Message]) -> None:
    """Make each system message but the first message a user's turn, since templates have no position for it."""
    for message in messages[1:]:
        if message.role == content_pb2.ROLE_SYSTEM:
            message.role = content_pb2.ROLE_USER

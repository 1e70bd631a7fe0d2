"""The queue of waiting sequences, fair among API keys.

The key that was served least goes first, and within a key the lowest priority value, then who came first. What counts
are the tokens that were computed for a key, of prompts and answers alike; those that are found in the cache, and those
that are computed again after a preemption, count nothing.
"""

from __future__ import annotations

from bisect import insort
from collections import abc, deque
from operator import attrgetter

from service.engine.core.accounts import Account, Accounts
from service.engine.core.sequences.sequence import Sequence, SequenceGroup

_by_order = attrgetter("order")


class KeyQueue(Account):
    """One key: what of it waits, in its own order, and how much of it runs."""

    __slots__ = ("num_running", "waiting")

    def __init__(self, served: float) -> None:
        super().__init__(served)
        self.num_running = 0  # sequences
        self.waiting: list[Sequence] = []

    @property
    def rank(self) -> tuple[float, float, int]:
        """Whose turn it is, the lowest first. Of two that were served alike, that with fewer running sequences."""
        return self.served, self.num_running / self.weight, self.waiting[0].group.serial if self.waiting else -1


class FairQueue:
    """What waits, by key. Belongs to the scheduler."""

    def __init__(self) -> None:
        self.num_waiting = 0
        self._keys = Accounts(KeyQueue)
        self._arrived: deque[SequenceGroup] = deque()  # requests that may not have begun

    @property
    def active(self) -> abc.Collection[KeyQueue]:
        """The keys that have requests, whether these wait or run."""
        return self._keys.active

    def of(self, sequence: Sequence) -> KeyQueue:
        """That of a sequence's key."""
        return self._keys[sequence.request.caller_id]

    def enter(self, group: SequenceGroup) -> None:
        """A request has come. Raises ValueError if its weight isn't above 0."""
        self._keys.enter(group.request.caller_id, group.request.weight, waits=lambda key: bool(key.waiting))
        if group.request_index == 0:  # those opened together with it count on it alone
            self._arrived.append(group)

    def leave(self, group: SequenceGroup) -> None:
        """A request has ended; none of its sequences waits or runs."""
        self._keys.leave(group.request.caller_id)

    def wait(self, sequence: Sequence) -> None:
        """Let a sequence wait for its turn."""
        insort(self.of(sequence).waiting, sequence, key=_by_order)
        self.num_waiting += 1

    def remove(self, group: SequenceGroup) -> None:
        """Let none of a request's sequences wait any more."""
        key = self._keys[group.request.caller_id]
        left = [sequence for sequence in key.waiting if sequence.group is not group]
        self.num_waiting -= len(key.waiting) - len(left)
        key.waiting = left

    def pop(self, key: KeyQueue) -> Sequence:
        """Take the first that waits of one key."""
        self.num_waiting -= 1
        return key.waiting.pop(0)

    def charge(self, sequence: Sequence, num_computed_tokens: int) -> None:
        """Count what has been, or is being, computed of a sequence up to there, once."""
        num_new = num_computed_tokens - sequence.num_charged_tokens
        if num_new > 0:
            self._keys[sequence.request.caller_id].charge(num_new)
            sequence.num_charged_tokens = num_computed_tokens

    def last(self, sequences: abc.Iterable[Sequence]) -> Sequence:
        """Whoever gives way first: of the key that was served most, the last in its order."""
        return max(sequences, key=lambda sequence: (self.of(sequence).served, sequence.order))

    def overdue(self, now: float, limit_s: float) -> list[SequenceGroup]:
        """The requests that have waited for their beginning for longer than that. Each is told once."""
        found = []
        while self._arrived:
            group = self._arrived[0]
            if not group.is_finished and group.sequences[0].scheduled is None:
                if now - group.arrived <= limit_s:
                    break
                found.append(group)
            self._arrived.popleft()
        return found


def gives_way(key: KeyQueue, held: abc.Mapping[KeyQueue, int], capacity: int) -> KeyQueue | None:
    """Which key has most above its share, in whose place `key` may have something; None if there is none.

    `held` has what each active key has. A share is `capacity` by weight among them, 1 at least, and a key gets
    something in another's place only up to its own.
    """
    total_weight = sum(each.weight for each in held)
    excess = {each: num - max(1.0, capacity * each.weight / total_weight) for each, num in held.items()}
    if held[key] and excess[key] + 1 > 0:
        return None
    most = max((each for each in held if each is not key), key=lambda each: excess[each], default=None)
    return most if most is not None and excess[most] > 0 else None

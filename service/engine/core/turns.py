"""The turns of API keys in one step: each computes its running prompts before it starts another request."""

from __future__ import annotations

from collections import abc, deque
from operator import attrgetter

from service.engine.core.fair_queue import FairQueue, KeyQueue
from service.engine.core.sequences.sequence import Sequence

_by_rank = attrgetter("rank")


class Turns:
    """The keys that have prompts for a step.

    The key with the least service is next. With `is_wanted`, only sequences for which it returns True are computed, and
    the key whose first token is due first is next.
    """

    def __init__(
        self,
        prefills: abc.Iterable[Sequence],
        queue: FairQueue,
        is_wanted: abc.Callable[[Sequence], bool] | None,
        *,
        may_start: bool,
    ) -> None:
        """`prefills` are running sequences; `may_start` decides whether queued ones have turns, too."""
        self._prefilling: dict[KeyQueue, deque[Sequence]] = {}
        for sequence in prefills:
            self._prefilling.setdefault(queue.key_of(sequence), deque()).append(sequence)
        others = [key for key in queue.active if key.waiting] if may_start else []
        self._keys = list(dict.fromkeys([*self._prefilling, *others]))
        self._is_wanted = is_wanted

    def next(self) -> KeyQueue | None:
        """Return the next key, or None if none is left."""
        if not self._keys or self._is_wanted is None:
            return min(self._keys, key=_by_rank, default=None)
        due = {}
        for key in self._keys:
            queued = self._prefilling.get(key) or key.waiting
            if queued and self._is_wanted(queued[0]):
                due[key] = queued[0].due, key.rank
        self._keys = list(due)
        return min(due, key=lambda key: due[key], default=None)

    def take(self, key: KeyQueue) -> Sequence | None:
        """Remove and return the key's next running sequence, or None if it has none."""
        return self._prefilling[key].popleft() if self._prefilling.get(key) else None

    def end(self, key: KeyQueue) -> None:
        """End the key's turns: no request overtakes its first one; otherwise a large one could wait forever."""
        self._keys = [
            each for each in self._keys if self._prefilling.get(each) or (each is not key and not key.waiting)
        ]

"""The turns of API keys in one step: each computes its running prompts before it starts another request.

The oldest prompt of a key is first, then the shortest one. A prompt yields to those behind it that are much shorter, as
long as they have computed few more tokens instead of it than it has itself; then it gets half of the tokens that are
left. So a long prompt takes about twice as long at most, and a short one does not wait for it. A prompt whose progress
is reported is computed in parts of half a second.
"""

from __future__ import annotations

import math
from collections import abc, deque
from itertools import chain, islice
from operator import attrgetter

from service.engine.core.queue.fair_queue import FairQueue, KeyQueue
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step_times import StepTimes

_MUCH_LONGER = 2.0
_CREDIT = 256  # tokens that a long prompt lets shorter ones compute before it has computed as many itself
_MIN_CHUNK = 16  # tokens: smaller chunks cost several times as much per token
_REPORTED_PART_S = 0.5  # the expected time of a part of a prompt whose progress is reported
_MIN_REPORTED_PART = 128  # tokens of it, and the unit of its size: a kernel may be compiled for each size
_NUM_NEXT = 8  # queued sequences that are compared with the one before them
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
        step_times: StepTimes,
        is_wanted: abc.Callable[[Sequence], bool] | None,
        num_free: int | None,
        *,
        with_batches: bool = True,
    ) -> None:
        """`prefills` are running sequences. Queued ones have turns, too, unless `num_free`, the free slots, is None.

        Without `with_batches`, those of batches have none.
        """
        self._prefilling: dict[KeyQueue, deque[Sequence]] = {}
        for sequence in prefills:
            self._prefilling.setdefault(queue.key_of(sequence), deque()).append(sequence)
        for key, running in self._prefilling.items():
            if len(running) > 1:
                self._prefilling[key] = deque([running[0], *sorted(islice(running, 1, None), key=_by_length)])
        others = [key for key in queue.active if key.waiting] if num_free is not None else []
        keys = dict.fromkeys([*self._prefilling, *others])
        self._keys = [key for key in keys if with_batches or not key.is_batch]
        self._yielding: list[tuple[Sequence, int]] = []  # to shorter ones, and the tokens that were left before
        self._is_wanted = is_wanted
        self._step_times = step_times
        self._num_next = min(max(num_free or 0, 0), _NUM_NEXT)

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

    def limit(self, key: KeyQueue, sequence: Sequence, num_left: int, *, is_starting: bool = False) -> int:
        """Return how many of `num_left` tokens a sequence of the key may compute in this turn.

        It is 0 for one that gets what shorter ones leave, see `leftover`, and never for one that is starting.
        """
        if sequence.progress_due is not None:
            num_left = min(num_left, self._reported_part(num_left))
        if sequence.due < math.inf or not (num_shorter := self._num_shorter(key, sequence)):
            return num_left
        num_yielded = min(num_shorter, num_left)
        if sequence.num_yielded_tokens + num_yielded <= sequence.num_computed_tokens + _CREDIT:
            num_kept = num_left - num_yielded
            if num_kept < _MIN_CHUNK and not is_starting:
                self._yielding.append((sequence, num_left))
                return 0
            sequence.num_yielded_tokens += num_yielded
            return max(num_kept, min(_MIN_CHUNK, num_left))
        half = num_left // 2
        if half < _MIN_CHUNK:
            return num_left
        sequence.num_yielded_tokens += min(num_yielded, half)
        return half

    def leftover(self, num_left: int) -> abc.Iterator[tuple[Sequence, int]]:
        """Yield the sequences that get what shorter ones left of the step, with the most tokens that each may compute.

        `num_left` is the number of tokens that were left.
        """
        for sequence, num_before in self._yielding:
            sequence.num_yielded_tokens += num_before - num_left
            if num_left >= min(_MIN_CHUNK, num_before):
                yield sequence, num_before

    def _num_shorter(self, key: KeyQueue, sequence: Sequence) -> int:
        """Return the tokens that much shorter prompts behind a key's sequence lack."""
        longest = sequence.num_lacking / _MUCH_LONGER
        priority = sequence.request.priority
        following = chain(self._prefilling.get(key, ()), islice(key.waiting, self._num_next))
        return sum(
            each.num_lacking
            for each in following
            if each is not sequence and each.num_lacking <= longest and each.request.priority == priority
        )

    def _reported_part(self, num_left: int) -> int:
        """Return the number of tokens of a part whose progress is reported; the least until the speed is known."""
        if not self._step_times.prompt_token_s:
            return _MIN_REPORTED_PART
        num_part = self._step_times.num_prompt_tokens_within(_REPORTED_PART_S, num_left)
        return max(num_part // _MIN_REPORTED_PART, 1) * _MIN_REPORTED_PART

    def end(self, key: KeyQueue) -> None:
        """End the key's turns: no request overtakes its first one; otherwise a large one could wait forever."""
        self._keys = [
            each for each in self._keys if self._prefilling.get(each) or (each is not key and not key.waiting)
        ]


def _by_length(sequence: Sequence) -> tuple[int, float, int]:
    """Return the sort key of running prompts after the oldest: by priority, first token due, and what they lack."""
    return sequence.request.priority, sequence.due, sequence.num_lacking

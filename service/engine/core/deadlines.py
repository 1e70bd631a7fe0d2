"""The deadlines of unfinished requests, and those that are too late to start."""

from __future__ import annotations

import math
from collections import abc

from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.core.step_times import StepTimes


class Deadlines:
    """Finds the requests of one engine whose deadline has passed. It belongs to the scheduler."""

    def __init__(self, groups: abc.Collection[SequenceGroup], step_times: StepTimes) -> None:
        """`groups` are the unfinished requests, which change."""
        self.too_late: list[SequenceGroup] = []  # neither waiting nor running; `expired` returns each once
        self._groups = groups
        self._step_times = step_times
        self._next = math.inf  # the earliest deadline of all requests

    def add(self, group: SequenceGroup) -> None:
        """Register a new request."""
        if group.request.deadline is not None:
            self._next = min(self._next, group.request.deadline)

    def is_too_late(self, sequence: Sequence, num_lacking: int, now: float) -> bool:
        """Return whether a request has not started and cannot have a token before its deadline.

        `num_lacking` is the number of the sequence's tokens that are not cached.
        """
        deadline = sequence.request.deadline
        if deadline is None or sequence.scheduled is not None or sequence.choice_index > 0:
            return False
        return self._step_times.is_too_late(num_lacking, deadline - now)

    def expired(self, now: float) -> list[SequenceGroup]:
        """Return the requests whose deadline has passed, and those in `too_late`."""
        if now < self._next and not self.too_late:
            return []
        too_late, self.too_late = self.too_late, []
        deadlines = {group: group.request.deadline for group in self._groups if group.request.deadline is not None}
        passed = [group for group, deadline in deadlines.items() if deadline <= now]
        self._next = min((each for each in deadlines.values() if each > now), default=math.inf)
        return [*passed, *(group for group in too_late if group in self._groups and group not in passed)]

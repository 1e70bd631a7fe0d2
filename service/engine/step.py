"""A step: which sequences compute how many tokens, and how it is made up."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from typing import NamedTuple

from service.engine.sequence import Sequence, SequenceGroup


class ScheduledSequence(NamedTuple):
    """A sequence's share of a step: the tokens at num_computed_tokens up to num_computed_tokens + num_new_tokens.

    The block table already covers them. `samples` is whether they reach the end of token_ids, so that the step yields
    the sequence's next token. `draft` are guesses of the tokens from there on, computed in the same step.
    """

    sequence: Sequence
    num_new_tokens: int
    samples: bool
    draft: abc.Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What to compute at once.

    `preempted` sequences have lost their blocks and will be computed again from the start; `started` are the requests
    that run for the first time.
    """

    items: list[ScheduledSequence]
    preempted: list[Sequence]
    started: list[SequenceGroup]

    @property
    def num_tokens(self) -> int:
        """Tokens that the step computes, drafts included."""
        return sum(item.num_new_tokens + len(item.draft) for item in self.items)

    @property
    def num_drafts(self) -> int:
        """Those of them that are drafts."""
        return sum(len(item.draft) for item in self.items)


class StepPlan:
    """A step in the making: who has which share, and how many tokens are left."""

    def __init__(self, max_tokens: int) -> None:
        self.shares: dict[Sequence, int] = {}
        self.drafts: dict[Sequence, list[int]] = {}
        self.preempted: list[Sequence] = []
        self.started: list[SequenceGroup] = []
        self.begun: set[Sequence] = set()  # those that didn't run before
        self.num_left = max_tokens

    def add(self, sequence: Sequence, num_new_tokens: int) -> None:
        """Give a sequence its share."""
        self.shares[sequence] = num_new_tokens
        self.num_left -= num_new_tokens

    def preempt(self, sequence: Sequence) -> None:
        """Take a sequence's share back, if it had one."""
        self.preempted.append(sequence)
        self.num_left += self.shares.pop(sequence, 0)

    def to_step(self) -> Step:
        """The step, made."""
        items = [
            ScheduledSequence(sequence, num_new, num_new == sequence.num_lacking, self.drafts.get(sequence, ()))
            for sequence, num_new in self.shares.items()
        ]
        return Step(items, self.preempted, self.started)

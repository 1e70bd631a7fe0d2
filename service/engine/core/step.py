"""A step: the sequences that compute tokens in it, and how many each."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass, field
from typing import NamedTuple

from service.engine.core.sequences.sequence import Sequence, SequenceGroup

_MAX_PROMPT_LOGPROBS = 64  # per sequence and step: each takes a row of logits as large as the vocabulary


class ScheduledSequence(NamedTuple):
    """A sequence's share of a step: the tokens at num_computed_tokens up to num_computed_tokens + num_new_tokens.

    The block table covers them. `samples` is True if they reach the end of `token_ids`, so that the step yields the
    sequence's next token. `draft` has guesses of the following tokens, which are computed in the same step.
    """

    sequence: Sequence
    num_new_tokens: int
    samples: bool
    draft: abc.Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """The work of one pass of the model: `num_tokens` tokens, including `num_drafts` drafts.

    `num_prompt_tokens` counts the tokens of prompts, `num_decodes` the sequences that compute one token and sample the
    next. The `preempted` sequences have lost their blocks and will be computed again from the start. The `started`
    requests run for the first time. The `following` sequences have blocks for the token that the step samples, and
    may be continued before it is read; the other items then end.
    """

    items: list[ScheduledSequence]
    preempted: list[Sequence]
    started: list[SequenceGroup]
    following: abc.Sequence[Sequence] = ()
    num_tokens: int = field(init=False)
    num_drafts: int = field(init=False)
    num_decodes: int = field(init=False)
    num_prompt_tokens: int = field(init=False)

    def __post_init__(self) -> None:
        num_tokens = num_drafts = num_decodes = 0
        for _, num_new, samples, draft in self.items:
            num_tokens += num_new
            num_drafts += len(draft)
            num_decodes += samples and num_new == 1
        object.__setattr__(self, "num_tokens", num_tokens + num_drafts)
        object.__setattr__(self, "num_drafts", num_drafts)
        object.__setattr__(self, "num_decodes", num_decodes)
        object.__setattr__(self, "num_prompt_tokens", num_tokens - num_decodes)

    @property
    def may_end_early(self) -> bool:
        """Whether the step yields to all others and can be repeated: all requests are of batches, without drafts."""
        return not self.num_drafts and all(item.sequence.request.is_batch for item in self.items)


class StepPlan:
    """A step under construction: the tokens of each sequence, and the remaining budget."""

    def __init__(self, max_tokens: int) -> None:
        self.shares: dict[Sequence, int] = {}
        self.drafts: dict[Sequence, list[int]] = {}
        self.preempted: list[Sequence] = []
        self.started: list[SequenceGroup] = []
        self.admitted: set[Sequence] = set()  # sequences that did not run before this step
        self.following: abc.Sequence[Sequence] = ()
        self.num_left = max_tokens

    def add(self, sequence: Sequence, num_new_tokens: int) -> None:
        """Schedule `num_new_tokens` tokens of a sequence."""
        self.shares[sequence] = num_new_tokens
        self.num_left -= num_new_tokens

    def preempt(self, sequence: Sequence) -> None:
        """Mark a sequence as preempted, and return its tokens to the budget."""
        self.preempted.append(sequence)
        self.num_left += self.shares.pop(sequence, 0)

    def to_step(self) -> Step:
        """Build the step."""
        drafts = self.drafts
        items = []
        for sequence, num_new in self.shares.items():
            samples = num_new == len(sequence.token_ids) - sequence.num_computed_tokens
            items.append(ScheduledSequence(sequence, num_new, samples, drafts.get(sequence, ()) if drafts else ()))
        return Step(items, self.preempted, self.started, self.following)


def share_of(sequence: Sequence, num_left: int) -> int:
    """Return the number of missing tokens that a sequence gets from a budget of `num_left`.

    The tokens of an image attend to each other, so a step computes the rest of an image or nothing of it. An image at
    the start of a sequence's share is computed even if it exceeds the budget; otherwise it would never fit if steps
    are kept short.
    """
    num_new = min(len(sequence.token_ids) - sequence.num_computed_tokens, num_left)
    if num_new > _MAX_PROMPT_LOGPROBS and sequence.needs_prompt_logprobs:
        num_new = _MAX_PROMPT_LOGPROBS
    if not sequence.request.images:
        return num_new
    start, end = sequence.num_computed_tokens, sequence.num_computed_tokens + num_new
    for image in sequence.request.images:
        if num_new > 0 and image.start < end < image.end:
            return image.start - start if image.start > start else image.end - start
    return num_new

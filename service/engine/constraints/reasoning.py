"""Reasoning that ends: a budget of tokens for it, and constraints that begin after it."""

from __future__ import annotations

import enum
from collections import abc
from typing import Any

from service.engine.constraint_state import ConstraintState
from service.engine.tokenizer import Tokenizer
from service.generation.constraint import ReasoningMarkers, ReasoningStart
from service.generation.errors import ConstraintFailed

_ALL = -1  # an int32 with every bit set


class ReasoningTokens:
    """The tokens of one model's markers. Immutable; shared by all requests."""

    def __init__(self, tokenizer: Tokenizer, markers: ReasoningMarkers, eos_token_ids: abc.Collection[int]) -> None:
        self.tokenizer = tokenizer
        self.eos_token_ids = tuple(eos_token_ids)
        self.close_marker = markers.close.encode()
        self.opening_ids = tokenizer.encode(markers.open + markers.after_open)
        self.closing_ids = tokenizer.encode(markers.close + markers.after_close)
        self.separator_ids = tokenizer.encode(markers.after_close) if markers.after_close else []
        open_ids = tokenizer.encode(markers.open)
        self.open_id = open_ids[0] if len(open_ids) == 1 else None
        self._crossing = self._crossing_ids()

    def crossing_ids(self, tail: bytes) -> abc.Iterator[int]:
        """Tokens that would end the closing marker and go on beyond it, after a text that ends with `tail`."""
        for num_before, token_ids in self._crossing.items():
            if tail.endswith(self.close_marker[:num_before]):
                yield from token_ids

    def _crossing_ids(self) -> dict[int, list[int]]:
        """The tokens, by the number of the marker's bytes that come before them."""
        crossing: dict[int, list[int]] = {}
        for token_id in range(self.tokenizer.vocab_size):
            data = self.tokenizer.token_bytes(token_id)
            for length in range(len(self.close_marker)):
                rest = self.close_marker[length:]
                found = data.find(rest) if length == 0 else (0 if data.startswith(rest) else -1)
                if found >= 0 and len(data) > found + len(rest):
                    crossing.setdefault(length, []).append(token_id)
        return crossing


class _Phase(enum.Enum):
    MAY_OPEN = enum.auto()  # the first token decides whether there is reasoning
    REASONING = enum.auto()
    ANSWER = enum.auto()


class ReasoningConstraint:
    """Lets the model reason for at most `budget` tokens, then holds the answer to `answer`. A `ConstraintState`.

    While it reasons, every token is free, but the text can't end if an answer is demanded. When the budget is spent,
    the closing marker is forced.
    """

    def __init__(
        self,
        tokens: ReasoningTokens,
        start: ReasoningStart,
        *,
        budget: int | None,
        answer: ConstraintState | None,
        must_open: bool = False,
    ) -> None:
        """`must_open` forces the opening marker where the prompt hasn't opened the reasoning. `budget` is in tokens."""
        self._tokens = tokens
        self._budget = budget
        self._answer = answer
        self._num_reasoning_tokens = 0
        self._tail = b""  # the last bytes of the reasoning, enough to find the closing marker
        self._forced: list[int] = []  # the next tokens, in reverse
        self._phase = {
            ReasoningStart.NONE: _Phase.ANSWER,
            ReasoningStart.MAY_OPEN: _Phase.MAY_OPEN,
            ReasoningStart.OPEN: _Phase.REASONING,
        }[start]
        if self._phase is _Phase.MAY_OPEN and must_open:
            self._phase = _Phase.REASONING
            self._forced = tokens.opening_ids[::-1]
        self._spend()

    def fill_mask(self, words: Any) -> None:
        """Write the allowed tokens into `words`, an int32 row."""
        if self._forced:
            words[:] = 0
            _set(words, self._forced[-1])
        elif self._phase is not _Phase.REASONING:
            self._fill_answer(words)
            if self._phase is _Phase.MAY_OPEN and self._tokens.open_id is not None:
                _set(words, self._tokens.open_id)
        else:
            words[:] = _ALL
            if self._answer is not None:
                for token_id in (*self._tokens.eos_token_ids, *self._tokens.crossing_ids(self._tail)):
                    _clear(words, token_id)

    def forced_tokens(self) -> list[int]:
        """What closes or opens the reasoning, or what the answer's constraint forces."""
        if self._forced or self._phase is not _Phase.ANSWER or self._answer is None:
            return self._forced[::-1]
        return self._answer.forced_tokens()

    def accept(self, token_id: int) -> None:
        """Move on by a token. Raises ConstraintFailed for another than the forced one."""
        if self._forced:
            if token_id != self._forced.pop():
                raise ConstraintFailed("another token than the forced one was sampled")
            if not self._forced:
                self._spend()
        elif self._phase is _Phase.MAY_OPEN and token_id == self._tokens.open_id:
            self._phase = _Phase.REASONING
            self._spend()
        elif self._phase is _Phase.REASONING:
            self._reason(token_id)
        else:
            self._phase = _Phase.ANSWER
            if self._answer is not None:
                self._answer.accept(token_id)

    def is_finished(self) -> bool:
        """Whether nothing but the end of the text may follow."""
        in_answer = self._phase is _Phase.ANSWER and not self._forced
        return in_answer and self._answer is not None and self._answer.is_finished()

    def fork(self) -> ReasoningConstraint:
        """A copy of its own for another choice."""
        copy = ReasoningConstraint(
            self._tokens,
            ReasoningStart.NONE,
            budget=self._budget,
            answer=self._answer.fork() if self._answer is not None else None,
        )
        copy._phase, copy._num_reasoning_tokens, copy._tail = self._phase, self._num_reasoning_tokens, self._tail
        copy._forced = list(self._forced)
        return copy

    def _reason(self, token_id: int) -> None:
        marker = self._tokens.close_marker
        text = self._tail + self._tokens.tokenizer.token_bytes(token_id)
        self._num_reasoning_tokens += 1
        if marker in text:
            self._phase = _Phase.ANSWER
            if self._answer is not None:
                self._forced = self._tokens.separator_ids[::-1]
            return
        self._tail = text[-len(marker) :]
        self._spend()

    def _spend(self) -> None:
        """Close the reasoning if its budget is spent."""
        if self._phase is not _Phase.REASONING or self._forced or self._budget is None:
            return
        if self._num_reasoning_tokens >= self._budget:
            self._phase = _Phase.ANSWER
            self._forced = self._tokens.closing_ids[::-1]

    def _fill_answer(self, words: Any) -> None:
        if self._answer is None:
            words[:] = _ALL
        else:
            self._answer.fill_mask(words)


def _set(words: Any, token_id: int) -> None:
    words.view("uint32")[token_id >> 5] |= 1 << (token_id & 31)


def _clear(words: Any, token_id: int) -> None:
    words.view("uint32")[token_id >> 5] &= ~(1 << (token_id & 31)) & 0xFFFFFFFF

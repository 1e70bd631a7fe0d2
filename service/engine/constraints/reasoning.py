"""The token budget of reasoning, and the constraint of the answer after it."""

from __future__ import annotations

import enum
from collections import abc
from typing import Any

from service.engine.constraints.bits import ALL, allow, forbid
from service.engine.constraints.calls import CallConstraint
from service.engine.constraints.marker import Marker
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.tokens.tokenizer import FastTokenizer, Vocabulary
from service.generation.errors import ConstraintFailed
from service.generation.formats.constraint import ReasoningMarkers, ReasoningStart

_ANSWER_RESERVE = 4  # reasoning leaves this multiple of the shortest answer, if the limit allows it


class ReasoningTokens:
    """The tokens of one model's markers. Immutable; shared by all requests."""

    def __init__(self, tokenizer: Vocabulary, markers: ReasoningMarkers, eos_token_ids: abc.Collection[int]) -> None:
        self.tokenizer = tokenizer
        self.eos_token_ids = tuple(eos_token_ids)
        self.open_marker = markers.open.encode()
        self.close_marker = Marker(tokenizer, markers.close.encode())
        encode = FastTokenizer(tokenizer.json).encode
        self.opening_ids = encode(markers.open + markers.after_open)
        self.closing_ids = encode(markers.close + markers.after_close)
        self.separator_ids = encode(markers.after_close) if markers.after_close else []
        open_ids = encode(markers.open)
        self.open_id = open_ids[0] if len(open_ids) == 1 else None


class _Phase(enum.Enum):
    MAY_OPEN = enum.auto()  # the first token decides whether there is reasoning
    REASONING = enum.auto()
    ANSWER = enum.auto()


class ReasoningConstraint:
    """A `ConstraintState` that allows reasoning for at most `budget` tokens and then holds the answer to `answer`.

    During the reasoning all tokens are allowed, except the end of the text if an answer is required. When the budget is
    spent, the closing marker is forced. If only the calls of an answer are constrained, it is free from its first
    character on.
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
        """`must_open` forces the opening marker unless the prompt has opened the reasoning. `budget` is in tokens."""
        self._tokens = tokens
        self._budget = budget
        self._answer = answer
        self._calls = answer if isinstance(answer, CallConstraint) else None
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

    @property
    def is_free(self) -> bool:
        """True if any token may follow, so that no mask is needed."""
        if self._forced:
            return False
        is_reasoning = self._phase is _Phase.REASONING and self._calls is not None
        return self._answer is None or is_reasoning or self._answer.is_free

    def fill_mask(self, mask: Any) -> None:
        """Write the allowed tokens into `mask`, an int32 row."""
        if self._forced:
            mask[:] = 0
            allow(mask, self._forced[-1])
        elif self._phase is not _Phase.REASONING:
            self._fill_answer(mask)
            if self._phase is _Phase.MAY_OPEN and self._tokens.open_id is not None:
                allow(mask, self._tokens.open_id)
        else:
            mask[:] = ALL
            if self._answer is not None and self._calls is None:
                crossing_ids = self._tokens.close_marker.crossing_ids(self._tail)
                for token_id in (*self._tokens.eos_token_ids, *crossing_ids):
                    forbid(mask, token_id)

    def shortest(self) -> int | None:
        """Return the number of tokens of the shortest remaining text, including the closing marker."""
        answer = self._num_answer_tokens()
        if not answer:
            return answer
        is_open = self._phase is _Phase.REASONING
        return len(self._forced) + (len(self._tokens.closing_ids) if is_open else 0) + answer

    def replace_token(self, token_id: int, num_left: int) -> int:
        """Return the token to append for `token_id`. Reasoning is closed while enough tokens for an answer are left."""
        if self._answer is None or self._forced:
            return token_id
        if self._phase is _Phase.ANSWER:
            return self._answer.replace_token(token_id, num_left)
        if not (num_answer_tokens := self._num_answer_tokens()):
            return token_id
        num_closing = len(self._tokens.closing_ids) + num_answer_tokens
        if self._phase is _Phase.MAY_OPEN:
            is_open = token_id == self._tokens.open_id and num_closing < num_left
            return token_id if is_open else self._answer.replace_token(token_id, num_left)
        data = self._tokens.tokenizer.token_bytes(token_id)
        is_closed = self._tokens.close_marker.text_after(self._tail, data) is not None
        if is_closed or num_closing + (_ANSWER_RESERVE - 1) * num_answer_tokens < num_left:
            return token_id
        self._close()
        return self._forced[-1]

    def _num_answer_tokens(self) -> int | None:
        """Return the number of tokens of the shortest answer, 0 if no answer is required."""
        return 0 if self._answer is None or self._calls is not None else self._answer.shortest()

    def forced_tokens(self) -> list[int]:
        """Return the forced tokens of the reasoning's markers or of the answer's constraint."""
        if self._forced or self._phase is not _Phase.ANSWER or self._answer is None:
            return self._forced[::-1]
        return self._answer.forced_tokens()

    def accept(self, token_id: int) -> None:
        """Advance by a token. Raise ConstraintFailed if it is not the forced one."""
        if self._forced:
            if token_id != self._forced.pop():
                raise ConstraintFailed("another token than the forced one was sampled")
            if not self._forced:
                self._spend()
        elif self._phase is _Phase.MAY_OPEN and self._calls is not None:
            self._begin(token_id, self._calls)
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
        """Return True if only the end of the text may follow."""
        in_answer = self._phase is _Phase.ANSWER and not self._forced
        return in_answer and self._answer is not None and self._answer.is_finished()

    def fork(self) -> ReasoningConstraint:
        """Return an independent copy for another choice."""
        copy = ReasoningConstraint(
            self._tokens,
            ReasoningStart.NONE,
            budget=self._budget,
            answer=self._answer.fork() if self._answer is not None else None,
        )
        copy._phase, copy._num_reasoning_tokens, copy._tail = self._phase, self._num_reasoning_tokens, self._tail
        copy._forced = list(self._forced)
        return copy

    def _begin(self, token_id: int, calls: CallConstraint) -> None:
        """Decide by the first text whether the answer begins with reasoning, as the output parser does."""
        marker = self._tokens.open_marker
        self._tail += self._tokens.tokenizer.token_bytes(token_id)
        text = self._tail.lstrip()
        if text.startswith(marker):
            self._phase, self._tail = _Phase.REASONING, text[len(marker) :]
            self._spend()
        elif not marker.startswith(text):
            self._phase = _Phase.ANSWER
            calls.follow(self._tail)

    def _reason(self, token_id: int) -> None:
        """Follow a token of the reasoning. The marker that closes it starts the answer."""
        marker = self._tokens.close_marker
        data = self._tokens.tokenizer.token_bytes(token_id)
        self._num_reasoning_tokens += 1
        if (rest := marker.text_after(self._tail, data)) is not None:
            self._phase = _Phase.ANSWER
            if self._calls is not None:
                self._calls.follow(rest)
            elif self._answer is not None:
                self._forced = self._tokens.separator_ids[::-1]
            return
        self._tail = (self._tail + data)[-len(marker.data) :]
        self._spend()

    def _spend(self) -> None:
        """Close the reasoning if its budget is spent."""
        if self._phase is not _Phase.REASONING or self._forced or self._budget is None:
            return
        if self._num_reasoning_tokens >= self._budget:
            self._close()

    def _close(self) -> None:
        self._phase = _Phase.ANSWER
        self._forced = self._tokens.closing_ids[::-1]

    def _fill_answer(self, mask: Any) -> None:
        if self._answer is None:
            mask[:] = ALL
        else:
            self._answer.fill_mask(mask)

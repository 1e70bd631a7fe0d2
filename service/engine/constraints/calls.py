"""The constraint of text that is free until the model opens a tool call, which must match a grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from service.engine.constraints.bits import ALL, forbid
from service.engine.constraints.grammar import GrammarConstraint
from service.engine.constraints.marker import Marker
from service.engine.tokens.tokenizer import Vocabulary


class CallConstraint:
    """A `ConstraintState` that allows all tokens until a call opens, and then constrains the call to its grammar.

    The only exceptions are tokens that complete a marker and continue with text that no call begins with.
    """

    def __init__(
        self,
        tokenizer: Vocabulary,
        first: GrammarConstraint,
        *,
        markers: Sequence[Marker],
        lead: GrammarConstraint | None,
        once: bool,
        eos_token_id: int,
    ) -> None:
        """`first` is a call's grammar in its first state; `markers`, `lead` and `once` are those of an `Opening`."""
        self._tokenizer = tokenizer
        self._first = first
        self._markers = markers
        self._lead = lead  # None once the text can't be a call any more
        self._once = once
        self._eos_token_id = eos_token_id
        self._text = b""  # the whole text, while there is a lead
        self._tail = b""  # the last bytes of free text, enough to find each marker
        self._call: GrammarConstraint | None = None
        self._forbidden = self._ids_of_no_call()

    @property
    def is_free(self) -> bool:
        """True if any token may follow, so that no mask is needed."""
        return self._call is None and not self._forbidden

    def fill_mask(self, mask: Any) -> None:
        """Write the allowed tokens into `mask`, an int32 row."""
        if self._call is not None:
            self._call.fill_mask(mask)
            return
        mask[:] = ALL
        for token_id in self._forbidden:
            forbid(mask, token_id)

    def shortest(self) -> int | None:
        """Return 0, because no call is required."""
        return 0

    def replace_token(self, token_id: int, num_left: int) -> int:
        """Return the token to append for `token_id`: the end of the text if it opens a call that could not end."""
        if self._call is not None:
            return self._call.replace_token(token_id, num_left)
        call = self._opened_by(self._tokenizer.token_bytes(token_id))
        is_too_long = call is not None and (call.shortest() or 0) >= num_left
        return self._eos_token_id if is_too_long else token_id

    def forced_tokens(self) -> list[int]:
        """Return the tokens that a call's grammar forces."""
        return self._call.forced_tokens() if self._call is not None else []

    def accept(self, token_id: int) -> None:
        """Advance by a token. Raise ConstraintFailed if a call's grammar does not allow it."""
        if self._call is None:
            self.follow(self._tokenizer.token_bytes(token_id))
            return
        self._call.accept(token_id)
        if self._call.is_finished() and not self._once:
            self._call, self._tail = None, b""
            self._forbidden = self._ids_of_no_call()

    def follow(self, data: bytes) -> None:
        """Advance by free text, in which a call may open."""
        self._call = self._opened_by(data)
        if self._call is None:
            self._text += data if self._lead is not None else b""
            if self._lead is not None and not self._lead.follow(data):
                self._lead = None
            if self._markers:
                self._tail = (self._tail + data)[-max(len(marker.data) for marker in self._markers) :]
            self._forbidden = self._ids_of_no_call()
        else:
            self._lead = None

    def is_finished(self) -> bool:
        """Return True if only the end of the text may follow."""
        return self._call is not None and self._call.is_finished()

    def fork(self) -> CallConstraint:
        """Return an independent copy for another choice."""
        copy = CallConstraint(
            self._tokenizer,
            self._first,
            markers=self._markers,
            lead=self._lead.fork() if self._lead is not None else None,
            once=self._once,
            eos_token_id=self._eos_token_id,
        )
        copy._text, copy._tail, copy._forbidden = self._text, self._tail, self._forbidden
        copy._call = self._call.fork() if self._call is not None else None
        return copy

    def _opened_by(self, data: bytes) -> GrammarConstraint | None:
        """Return the call that opens within `data`, or None."""
        if self._lead is not None:
            lead = self._lead.fork()
            if lead.follow(data) and lead.is_accepting():
                return self._call_after(self._text + data)
        for marker in self._markers:
            rest = marker.text_after(self._tail, data)
            if rest is not None and (call := self._call_after(rest)) is not None:
                return call
        return None

    def _call_after(self, data: bytes) -> GrammarConstraint | None:
        """Return a call that begins with `data`, or None if no call does."""
        call = self._first.fork()
        return call if call.follow(data) else None

    def _ids_of_no_call(self) -> tuple[int, ...]:
        """Return the tokens that would complete a marker and continue with text that no call begins with."""
        found = []
        for marker in self._markers:
            for token_id in marker.crossing_ids(self._tail):
                rest = marker.text_after(self._tail, self._tokenizer.token_bytes(token_id))
                if rest and self._call_after(rest) is None:
                    found.append(token_id)
        return tuple(found)

"""The state of one choice's output constraint."""

from __future__ import annotations

from typing import Any, Protocol


class ConstraintState(Protocol):
    """Follows a choice token by token. Only the engine's thread calls it once the request runs."""

    @property
    def is_free(self) -> bool:
        """Whether any token may follow, so that no mask is needed."""

    def fill_mask(self, words: Any) -> None:
        """Write the allowed tokens into `words`, an int32 row of ceil(vocab_size / 32).

        Bit i of word w is token 32·w + i.
        """

    def shortest(self) -> int | None:
        """How many tokens the shortest text has that may still be said; None if that isn't known."""

    def settle(self, token_id: int, room: int) -> int:
        """The token to take where `token_id` was drawn and `room` tokens may be said, this one counted in.

        It is another if the text couldn't end within them any more. `accept` follows with it, or nothing does.
        """

    def forced_tokens(self) -> list[int]:
        """Tokens that may well be the only ones to follow, in their order; the mask has the last word."""

    def accept(self, token_id: int) -> None:
        """Move on by a token that the mask allowed."""

    def is_finished(self) -> bool:
        """Whether nothing but the end of the text may follow."""

    def fork(self) -> ConstraintState:
        """A copy of its own for another choice of the same prompt."""

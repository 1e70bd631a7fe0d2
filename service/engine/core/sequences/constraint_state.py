"""The interface of the state of one choice's output constraint."""

from __future__ import annotations

from typing import Any, Protocol


class ConstraintState(Protocol):
    """The state of a constraint after the tokens of a choice so far. Only the engine's thread calls it during a run."""

    @property
    def is_free(self) -> bool:
        """True if any token is allowed next, so that no mask is needed."""

    def fill_mask(self, mask: Any) -> None:
        """Write the allowed tokens into `mask`, an int32 row of ceil(vocab_size / 32).

        Bit i of element w is token 32·w + i.
        """

    def shortest(self) -> int | None:
        """Return the number of tokens of the shortest completion, or None if unknown."""

    def replace_token(self, token_id: int, num_left: int) -> int:
        """Return the token to append if `token_id` was drawn and `num_left` tokens are left, including this one.

        It differs from `token_id` if the text could not end within that limit otherwise. Only the returned token may be
        passed to `accept` next.
        """

    def forced_tokens(self) -> list[int]:
        """Return tokens that are likely the only ones allowed next, in order. Only the mask is exact."""

    def accept(self, token_id: int) -> None:
        """Advance by a token that the mask allowed."""

    def is_finished(self) -> bool:
        """Return True if only the end of the text is allowed next."""

    def fork(self) -> ConstraintState:
        """Return an independent copy for another choice of the same prompt."""

"""A constraint on which those of tests are based."""

from __future__ import annotations

from typing import Any, Self


class FakeConstraint:
    """Allows every token, and never ends."""

    is_free = False

    def fill_mask(self, mask: Any) -> None: ...

    def accept(self, token_id: int) -> None: ...

    def shortest(self) -> None: ...

    def replace_token(self, token_id: int, num_left: int) -> int:
        return token_id

    def is_finished(self) -> bool:
        return False

    def forced_tokens(self) -> list[int]:
        return []

    def fork(self) -> Self:
        return self

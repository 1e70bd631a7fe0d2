"""Set single tokens in a mask of one bit per token."""

from __future__ import annotations

from typing import Any

ALL = -1  # an int32 with every bit set


def allow(words: Any, token_id: int) -> None:
    """Allow a token in the mask `words`, an int32 row."""
    words.view("uint32")[token_id >> 5] |= 1 << (token_id & 31)


def forbid(words: Any, token_id: int) -> None:
    """Forbid a token in the mask `words`, an int32 row."""
    words.view("uint32")[token_id >> 5] &= ~(1 << (token_id & 31)) & 0xFFFFFFFF

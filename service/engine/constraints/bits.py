"""Set single tokens in a mask of one bit per token."""

from __future__ import annotations

from typing import Any

ALL = -1  # an int32 with every bit set


def allow(mask: Any, token_id: int) -> None:
    """Allow a token in `mask`, an int32 row."""
    mask.view("uint32")[token_id >> 5] |= 1 << (token_id & 31)


def forbid(mask: Any, token_id: int) -> None:
    """Forbid a token in `mask`, an int32 row."""
    mask.view("uint32")[token_id >> 5] &= ~(1 << (token_id & 31)) & 0xFFFFFFFF

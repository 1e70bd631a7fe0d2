"""Ids of responses: the contract's, with a prefix."""

from __future__ import annotations

from typing import Final

_PREFIX: Final = "resp_"


def to_id(given: str) -> str:
    """Return the contract's id."""
    return given.removeprefix(_PREFIX)


def written_id(response_id: str) -> str:
    """Return the caller's id."""
    return _PREFIX + response_id

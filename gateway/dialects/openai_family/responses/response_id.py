"""Ids of responses and conversations: the contract's, with a prefix."""

from __future__ import annotations

from typing import Final

_PREFIX: Final = "resp_"
_CONVERSATION: Final = "conv_"


def to_id(given: str) -> str:
    """Return the contract's id."""
    return given.removeprefix(_PREFIX)


def written_id(response_id: str) -> str:
    """Return the caller's id."""
    return _PREFIX + response_id


def to_conversation_id(given: str) -> str:
    """Return the contract's id of a conversation."""
    return given.removeprefix(_CONVERSATION)


def written_conversation_id(conversation_id: str) -> str:
    """Return the caller's id of a conversation."""
    return _CONVERSATION + conversation_id

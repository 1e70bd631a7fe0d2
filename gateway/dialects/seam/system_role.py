"""The position of system messages, for dialects that allow them anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.v1 import content_pb2


def move_later_to_user(messages: Sequence[content_pb2.Message]) -> None:
    """Make each system message but the first message a user's turn, since templates have no position for it."""
    for message in messages[1:]:
        if message.role == content_pb2.ROLE_SYSTEM:
            message.role = content_pb2.ROLE_USER

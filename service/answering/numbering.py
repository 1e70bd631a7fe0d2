"""Number a stream's messages, and write the position from which each can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from service.answering.message_group import Message, MessageGroup, StreamPosition
from service.contract.resume import position_bytes
from service.generation.resume import Position


class Numbering(Generic[Message]):
    """What the next message gets. It must be told of every part of the stream."""

    def __init__(self, num_choices: int, stream: bytes = b"") -> None:
        """`stream` is what the stream is told by, empty for one that can't be resumed."""
        self.next_number = 0
        self.counts = [0] * num_choices  # of each choice, the tokens that were told
        self._stream = stream

    def number(self, part: MessageGroup[Message]) -> Sequence[Message]:
        """The part's messages, each with all that it is taken up again by."""
        position = self._position(part)
        for message in part.messages:
            message.sequence_number = self.next_number
            message.position = position
            if self.next_number == 0:
                message.stream = self._stream
            self.next_number += 1
        if part.place is StreamPosition.CHOICE:
            self.counts[part.choice_index] += part.num_tokens
        return part.messages

    def _position(self, part: MessageGroup[Message]) -> bytes:
        if not self._stream or part.place is StreamPosition.COST:
            return b""
        if part.place is not StreamPosition.CHOICE:
            place = Position(self.next_number, self.counts, num_cached_tokens=part.num_cached_tokens)
        else:
            index = part.choice_index
            end = self.counts[index] + part.num_tokens
            place = Position(self.next_number, self.counts, index, end, part.num_cached_tokens)
        return position_bytes(place)

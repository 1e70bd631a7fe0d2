"""Resume a broken stream: generate it again from its beginning, and send it from where it broke.

What was received is left out: of each choice so many tokens, whatever outputs they come in now, and of the output that
the stream broke in, which is cut as it was, so many messages. Nothing new is told before all of that has come by, since
a place in the stream is told by counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic

from service.answering.message_group import Message, MessageGroup, StreamPosition
from service.answering.numbering import Numbering
from service.generation.errors import CannotResume, InvalidRequest
from service.generation.resume import ResumePoint


class Resuming(Generic[Message]):
    """Takes the parts of one stream in their order, and tells what is to be sent."""

    def __init__(self, numbering: Numbering[Message], point: ResumePoint) -> None:
        """Raises InvalidRequest for a place in another stream, and CannotResume where a deadline had ended it."""
        self._numbering = numbering
        self._point = point
        self._received = point.position.ends
        if len(self._received) != len(numbering.counts):
            num_choices = len(numbering.counts)
            raise InvalidRequest("resume.position", f"is a place in another stream: this one has {num_choices} choices")
        if self._cut is not None and self._received[self._cut] == point.position.counts[self._cut]:
            raise CannotResume("the stream can't be resumed: its deadline had cut off the answer")
        self._passed = [0] * len(self._received)
        self._num_behind = sum(count > 0 for count in self._received)  # choices of which something is to come by
        self._waiting: list[MessageGroup[Message]] = []  # until nothing is

    @property
    def cuts(self) -> list[list[int]]:
        """Of each choice, the numbers of tokens between which the outputs must be."""
        cuts = [[count] if count else [] for count in self._point.position.counts]
        if self._cut is not None:
            cuts[self._cut].append(self._point.position.end)
        return cuts

    def take(self, part: MessageGroup[Message]) -> list[Message]:
        """What is to be sent now.

        Raises InvalidRequest if the answer ends before the place where it is to go on, and CannotResume if it doesn't
        end where it had ended.
        """
        match part.place:
            case StreamPosition.BEGINNING:
                messages = self._told(self._numbering.number(part))
                return messages if self._num_behind else [*messages, *self._caught_up()]
            case StreamPosition.CHOICE if self._passed[part.choice_index] < self._received[part.choice_index]:
                return self._pass(part)
            case StreamPosition.CHOICE if self._is_over:
                raise CannotResume("the stream can't be resumed: its deadline had cut off the answer")
            case StreamPosition.END if self._num_behind:
                raise InvalidRequest("resume.position", "is beyond the end of the answer")
        if self._num_behind:
            self._waiting.append(part)
            return []
        return self._told(self._numbering.number(part))

    @property
    def _cut(self) -> int | None:
        """The choice of the output that the stream broke in."""
        return self._point.position.choice_index

    @property
    def _is_over(self) -> bool:
        """Whether the stream broke after its last output."""
        return self._cut is None and self._point.position.first_number > 0

    def _pass(self, part: MessageGroup[Message]) -> list[Message]:
        """Let by what was received."""
        index = part.choice_index
        self._passed[index] += part.num_tokens
        if self._passed[index] >= self._received[index]:
            self._num_behind -= 1
        messages: list[Message] = []
        if index == self._cut and self._passed[index] > self._point.position.counts[index]:
            self._waiting.insert(0, part)
        elif self._point.replays:
            messages = list(part.messages)
            for message in messages:
                message.sequence_number = min(self._numbering.next_number, self._point.sequence_number)
                self._numbering.next_number += 1
        return messages if self._num_behind else [*messages, *self._caught_up()]

    def _caught_up(self) -> Iterator[Message]:
        """What has waited, beginning with the output that the stream broke in."""
        position, last = self._point.position, self._point.sequence_number
        if position.first_number:
            self._numbering.counts = list(position.counts)
            self._numbering.next_number = position.first_number
        else:
            self._numbering.next_number = max(self._numbering.next_number, last + 1)
        for index, part in enumerate(self._waiting):
            yield from self._told(self._numbering.number(part))
            if index == 0:
                self._numbering.next_number = max(self._numbering.next_number, last + 1)
        self._waiting.clear()

    def _told(self, messages: Sequence[Message]) -> list[Message]:
        """Those that were not received, or all if they are to be told again."""
        point = self._point
        return [each for each in messages if point.replays or each.sequence_number > point.sequence_number]

"""Number the messages of a stream, and resume a broken stream.

A stream is resumed by generating it again from its beginning and skipping what the client has received: a number of
tokens per choice, regardless of how they are grouped into outputs this time. The output during which the stream broke
is cut at the same tokens as before, so that its messages can be skipped one by one. Nothing new is sent until
everything that was received has been skipped, because a position counts the tokens of all choices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeAlias

from service.answering.kind import Message
from service.contract.parts.resume import position_bytes
from service.generation.errors import CannotResume, InvalidRequest
from service.generation.outputs.events import Completed, Event, PromptProgress, Started, Tokens, Usage
from service.generation.requests.resume import ResumePoint, StreamPosition

_Group: TypeAlias = tuple[Sequence[Event], Sequence[Message]]


class ResumableStream(Generic[Message]):
    """Numbers a stream's messages, and skips those that the client of a resumed stream has received."""

    def __init__(self, num_choices: int, identity: bytes = b"", point: ResumePoint | None = None) -> None:
        """`identity` is sent with the first message; empty if the stream can't be resumed. `point` resumes a stream.

        Raise InvalidRequest for a position in another stream, and CannotResume if a deadline has cut the stream off.
        """
        self._identity = identity
        self._next_number = 0
        self._last_position = b""  # of the newest message
        self._num_sent = [0] * num_choices  # tokens, by choice
        self._point = point
        if point is None:
            return
        position = point.position
        self._received = position.ends  # tokens, by choice
        if len(self._received) != num_choices:
            raise InvalidRequest(
                "resume.position", f"is a position in another stream: this one has {num_choices} choices"
            )
        self._broken_choice = position.choice_index  # the choice of the output during which the stream broke
        if self._broken_choice is not None and position.end == position.counts[self._broken_choice]:
            raise _cut_off_by_deadline()
        self._num_skipped = [0] * num_choices  # tokens, by choice
        self._num_behind = sum(count > 0 for count in self._received)  # choices with tokens left to skip
        self._waiting: list[_Group[Message]] = []  # messages that wait until other choices are skipped

    @property
    def output_ends(self) -> list[list[int]]:
        """The numbers of tokens at which outputs of each choice must end."""
        if self._point is None:
            return [[] for _ in self._num_sent]
        output_ends = [[count] if count else [] for count in self._point.position.counts]
        if self._broken_choice is not None:
            output_ends[self._broken_choice].append(self._point.position.end)
        return output_ends

    def number(self, events: Sequence[Event], messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages to send now, with their numbers and positions.

        `messages` are the rendered `events`, which are those of one output, of the beginning or of the end.

        Raise InvalidRequest if the answer ends before the position at which it is resumed, and CannotResume if it does
        not end where it had ended before.
        """
        return self._number(events, messages) if self._point is None else self._resume(self._point, events, messages)

    def _number(self, events: Sequence[Event], messages: Sequence[Message]) -> Sequence[Message]:
        """Set the numbers and the position of messages."""
        if isinstance(events[0], PromptProgress):
            return self._marked_like_last(messages)
        position = self._last_position = self._position(events)
        for message in messages:
            message.sequence_number = self._next_number
            message.position = position
            if self._next_number == 0:
                message.stream = self._identity
            self._next_number += 1
        if isinstance(tokens := events[0], Tokens):
            self._num_sent[tokens.choice_index] += len(tokens.token_ids)
        return messages

    def _marked_like_last(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Give messages that are no part of the answer the number and the position of the message before them."""
        for message in messages:
            message.sequence_number, message.position = self._next_number - 1, self._last_position
        return messages

    def _position(self, events: Sequence[Event]) -> bytes:
        """The position from which the stream can be resumed; none for the usage of a stream that fails."""
        if not self._identity:
            return b""
        match events:
            case [Tokens() as tokens, *_]:
                index = tokens.choice_index
                end = self._num_sent[index] + len(tokens.token_ids)
                position = StreamPosition(self._next_number, self._num_sent, index, end, tokens.num_cached_tokens)
            case [Usage() as usage, Completed()]:
                position = StreamPosition(self._next_number, self._num_sent, num_cached_tokens=usage.cached_tokens)
            case [Usage()]:
                return b""
            case _:
                position = StreamPosition(self._next_number, self._num_sent)
        return position_bytes(position)

    def _resume(self, point: ResumePoint, events: Sequence[Event], messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages that the client of a resumed stream has not received."""
        match events[0]:
            case Started():
                new = self._not_received(point, self._number(events, messages))
                return new if self._num_behind else [*new, *self._catch_up(point)]
            case Tokens() as tokens if self._num_skipped[tokens.choice_index] < self._received[tokens.choice_index]:
                return self._skip(point, tokens, events, messages)
            case Tokens() if self._broken_choice is None and point.position.first_number > 0:
                raise _cut_off_by_deadline()  # the stream broke after its last output
            case Usage() if self._num_behind and len(events) > 1:
                raise InvalidRequest("resume.position", "is beyond the end of the answer")
        if self._num_behind:
            self._waiting.append((events, messages))
            return []
        return self._not_received(point, self._number(events, messages))

    def _skip(
        self, point: ResumePoint, tokens: Tokens, events: Sequence[Event], messages: Sequence[Message]
    ) -> Sequence[Message]:
        """Skip an output that the client has received, or return its messages if the client requests a replay."""
        index = tokens.choice_index
        self._num_skipped[index] += len(tokens.token_ids)
        if self._num_skipped[index] >= self._received[index]:
            self._num_behind -= 1
        again: Sequence[Message] = ()
        if index == self._broken_choice and self._num_skipped[index] > point.position.counts[index]:
            self._waiting.insert(0, (events, messages))
        elif point.replays:
            again = messages
            for message in again:
                message.sequence_number = min(self._next_number, point.sequence_number)
                self._next_number += 1
        return again if self._num_behind else [*again, *self._catch_up(point)]

    def _catch_up(self, point: ResumePoint) -> Iterator[Message]:
        """Yield the messages that waited, beginning with the output during which the stream broke."""
        first_number, after = point.position.first_number, point.sequence_number + 1
        if first_number:
            self._num_sent = list(point.position.counts)
            self._next_number = first_number
        else:
            self._next_number = max(self._next_number, after)
        for index, (events, messages) in enumerate(self._waiting):
            yield from self._not_received(point, self._number(events, messages))
            if index == 0:
                self._next_number = max(self._next_number, after)
        self._waiting.clear()

    def _not_received(self, point: ResumePoint, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages after the point's number, or all messages if the client requests a replay."""
        if point.replays:
            return messages
        return [message for message in messages if message.sequence_number > point.sequence_number]


def _cut_off_by_deadline() -> CannotResume:
    return CannotResume("the stream can't be resumed: its deadline had cut off the answer")

"""A piece of a stream before it is numbered."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """A message of protobuf."""

    def ByteSize(self) -> int: ...  # noqa: N802  protobuf's name


class Numbered(Sized, Protocol):
    """A message of a stream."""

    sequence_number: int
    stream: bytes
    position: bytes


Message = TypeVar("Message", bound=Numbered)


class StreamPosition(enum.Enum):
    """Where in a stream."""

    BEGINNING = enum.auto()
    CHOICE = enum.auto()
    COST = enum.auto()  # of a stream that fails; its status follows
    END = enum.auto()


@dataclass(frozen=True, slots=True)
class MessageGroup(Generic[Message]):
    """The messages of one output, or of the stream's beginning or end.

    `num_tokens` are those of the output, `num_cached_tokens` what is known of the prompts' so far.
    """

    place: StreamPosition
    messages: Sequence[Message]
    choice_index: int = 0
    num_tokens: int = 0
    num_cached_tokens: int = 0

"""The position in a stream from which it can be resumed, and the stream's identity.

A stream's tokens are a function of its request and its seed. A position therefore counts tokens, which do not depend on
how they are grouped into messages, and the service stores nothing that was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """The identity of one answer, and everything that determines its tokens.

    `digest` is a hash of the prepared request, including its prompt and constraint.
    """

    id: str  # 32 hexadecimal digits
    created_ns: int  # since the epoch
    model: str
    fingerprint: str  # of the model's files and of the backend that computes it
    seed: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The position of a message in a stream, in tokens per choice.

    The message belongs to an output of choice `choice_index`, or to the stream's beginning or end if that is None.
    """

    first_number: int  # sequence number of the first message of the same output, of the beginning or of the end
    counts: Sequence[int]  # tokens of each choice that were sent before
    choice_index: int | None = None
    end: int = 0  # tokens of the choice up to the end of the output
    num_cached_tokens: int = 0  # of all prompts that have started

    @property
    def ends(self) -> list[int]:
        """The tokens of each choice up to the end of the message's output."""
        ends = list(self.counts)
        if self.choice_index is not None:
            ends[self.choice_index] = self.end
        return ends


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The last message of a stream that the client has received. With `replays`, earlier messages are sent again."""

    identity: StreamIdentity
    position: StreamPosition
    sequence_number: int
    replays: bool = False

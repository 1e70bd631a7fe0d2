"""The position in a stream from which it can be resumed, and the stream's identity.

A stream's tokens follow from its request and its seed. So its place is counted in tokens, which are the same however
they were put into messages, and nothing else is kept of what was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """One answer, and what its tokens follow from.

    `digest` is that of the request as it was made ready to run, prompt and constraint included.
    """

    id: str  # 32 hexadecimal digits
    created_ns: int  # since the epoch
    model: str
    fingerprint: str
    seed: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """What a message belongs to.

    `counts` are the tokens of each choice that came before; what the message tells is of choice `choice_index`, the
    tokens up to its number `end`. Without a choice, the message is of the stream's beginning or of its end.
    `first_number` is the number of the first message of the same tokens, or of the beginning or the end.
    """

    first_number: int
    counts: Sequence[int]
    choice_index: int | None = None
    end: int = 0
    num_cached_tokens: int = 0  # of the prompts, as far as they have begun

    @property
    def ends(self) -> list[int]:
        """The tokens of each choice with those that the message is of."""
        ends = list(self.counts)
        if self.choice_index is not None:
            ends[self.choice_index] = self.end
        return ends


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The last message of a stream that was received. With `replays`, what came before is told again."""

    identity: StreamIdentity
    position: StreamPosition
    sequence_number: int
    replays: bool = False

"""What every kind of generation has in common between its request and its stream of events.

Owns the protocol of a prepared request and the identity of an answer. Knows no kind of generation: each has a class of
its own beside its pipeline. Used on the loop.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from google.protobuf import timestamp_pb2
from sluice.v1 import chat_pb2, model_pb2, sampling_pb2, usage_pb2

from service.generation.output import GenerationOutput
from service.generation.request import GenerationRequest


class Numbered(Protocol):
    """An event of a stream."""

    sequence_number: int


Event = TypeVar("Event", bound=Numbered)
_Event_co = TypeVar("_Event_co", bound=Numbered, covariant=True)


@dataclass(frozen=True, slots=True)
class Identity:
    """What an answer is known by: its own id, when its generation was admitted, and the model that answers."""

    id: str
    created: timestamp_pb2.Timestamp
    model: model_pb2.Model

    @classmethod
    def now(cls, model: model_pb2.Model) -> Identity:
        """The identity of an answer that was admitted now."""
        created = timestamp_pb2.Timestamp()
        created.GetCurrentTime()
        return cls(uuid.uuid4().hex, created, model)


class Prepared(Protocol[_Event_co]):
    """A request that the engine can run, and its way back. One object a request.

    `generations` are what the engine is to run for it, opened together: an output's `request_index` tells which of them
    it belongs to. `prompt_fields` are what the caller's request calls the prompt of each. `sampling` and `stopping`
    have every default filled in. No event has a sequence number yet.
    """

    @property
    def generations(self) -> Sequence[GenerationRequest]: ...

    @property
    def prompt_fields(self) -> Sequence[str]: ...

    @property
    def sampling(self) -> sampling_pb2.SamplingParams: ...

    @property
    def stopping(self) -> sampling_pb2.StopParams: ...

    def started(self, identity: Identity) -> Iterable[_Event_co]:
        """What the stream begins with."""

    def events(self, output: GenerationOutput) -> Iterable[_Event_co]:
        """What the engine's next output adds to the stream."""

    def completed(self) -> Iterable[_Event_co]:
        """What a stream ends with whose choices have all ended: the usage and the last event."""

    def broken_off(self) -> Iterable[_Event_co]:
        """What a stream ends with before its error, after the first output: the usage."""

    def usage(self) -> usage_pb2.Usage:
        """What the outputs so far cost."""

    def finish_reasons(self) -> Sequence[chat_pb2.FinishReason]:
        """Why choices ended, those that did, in the order of their index."""

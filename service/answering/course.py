"""One stream on its way to the client: its identity, and which of its messages are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Generic

from service.answering.message_group import Message, MessageGroup
from service.answering.numbering import Numbering
from service.answering.resuming import Resuming
from service.answering.stream_identity import check_identity, identity_of
from service.contract.resume import stream_bytes
from service.generation.resume import ResumePoint
from service.prompting.preparation import PreparedAnswer
from service.registry.models import ServedGenerator


class Course(Generic[Message]):
    """Numbers what is sent of an answer: all of it, or what is left of a stream that broke.

    `prepared` is what is to run.
    """

    def __init__(
        self, model: ServedGenerator, prepared: PreparedAnswer, point: ResumePoint | None, *, streams: bool
    ) -> None:
        """`streams` tells whether the messages leave as they come, so that they may have to be resumed.

        Raises CannotResume, or InvalidRequest for a `point` of another stream.
        """
        self.prepared = prepared
        self.identity = identity_of(model, prepared)
        if point is not None:
            check_identity(point.identity, self.identity, can_resume=model.description.supports_resume)
            self.identity = point.identity
        num_choices = prepared.requests[0].n * len(prepared.requests)
        told = streams and model.description.supports_resume
        self._numbering: Numbering[Message] = Numbering(
            num_choices, stream_bytes(self.identity, num_choices) if told else b""
        )
        self._resuming: Resuming[Message] | None = None
        if point is not None:
            self._resuming = Resuming(self._numbering, point)
            self.prepared = _with_cuts(prepared, self._resuming.cuts)

    def take(self, part: MessageGroup[Message]) -> Sequence[Message]:
        """What is to be sent of the stream's next part. Raises as `Resuming.take` does."""
        return self._numbering.number(part) if self._resuming is None else self._resuming.take(part)


def _with_cuts(prepared: PreparedAnswer, cuts: Sequence[Sequence[int]]) -> PreparedAnswer:
    """The same, with outputs that are cut where a stream's were; `cuts` are those of all choices."""
    n = prepared.requests[0].n
    requests = [
        replace(request, cuts=dict(enumerate(cuts[index * n : (index + 1) * n])))
        for index, request in enumerate(prepared.requests)
    ]
    return replace(prepared, requests=requests)

"""Turn the engine's outputs of one answer into events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from service.generation.outputs.events import Completed, Event, Started, Usage
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.resume import ResumePoint, StreamIdentity
from service.output.answers.answer import AnswerReader
from service.prompting.preparation import PreparedAnswer
from service.registry.models import ServedGenerator

# More of them are read and rendered by another thread: with twenty candidates each, these take about five milliseconds.
MAX_INLINE_LOGPROBS: Final = 128


class AnswerEvents:
    """Reads the outputs of one answer, in groups of events: the beginning, one output each, and the end."""

    def __init__(
        self, model: ServedGenerator, prepared: PreparedAnswer, identity: StreamIdentity, point: ResumePoint | None
    ) -> None:
        """`point` is where the answer's stream is resumed; None for a new stream."""
        self._reader = AnswerReader(prepared.requests, prepared.forms, model.tokenizer, answer_id=identity.id)
        self._requests = prepared.requests
        self._lacks_prompt = {index for index, each in enumerate(self._requests) if each.prompt_logprobs is not None}
        self._early: list[GenerationOutput] = []
        self._started = _started(model, prepared, identity)
        if point is not None:
            n = prepared.requests[0].n
            begun = {index // n for index, count in enumerate(point.position.ends) if count}
            self._reader.report_cached(sorted(begun), point.position.num_cached_tokens)

    def usage(self) -> Usage:
        """The usage of the outputs so far."""
        images = [image for request in self._requests for image in request.images]
        return self._reader.usage()._replace(image_tokens=sum(image.end - image.start for image in images))

    def begin(self) -> Sequence[Event]:
        """Return the events of an admitted request."""
        return (self._started,)

    async def read(self, output: GenerationOutput) -> Sequence[Sequence[Event]]:
        """Return the events of an output, and of those that waited for it.

        A prompt's logprobs come with its first choice and precede the text of every choice: other choices wait for it.
        """
        prompt_index = output.request_index
        if prompt_index not in self._lacks_prompt:
            return (self._reader.read(output),)
        if output.choice_index:
            self._early.append(output)
            return ()
        self._lacks_prompt.remove(prompt_index)
        waiting = [each for each in self._early if each.request_index == prompt_index]
        self._early = [each for each in self._early if each.request_index != prompt_index]
        if len(output.prompt_logprobs) > MAX_INLINE_LOGPROBS:
            first = await asyncio.to_thread(self._reader.read, output)
        else:
            first = self._reader.read(output)
        return (first, *(self._reader.read(each) for each in waiting))

    def break_off(self) -> Sequence[Event]:
        """Return the events of an answer that fails after its first output."""
        return (self.usage(),)

    def end(self) -> Sequence[Event]:
        """Return the events of an answer whose choices have all ended."""
        return (self.usage(), Completed(time.time_ns()))


def _started(model: ServedGenerator, prepared: PreparedAnswer, identity: StreamIdentity) -> Started:
    return Started(
        id=identity.id,
        created_ns=identity.created_ns,
        model=model.name,
        model_version=model.description.version,
        fingerprint=model.description.fingerprint,
        sampling=prepared.sampling,
        stopping=prepared.stopping,
        n=prepared.requests[0].n,
        num_prompts=len(prepared.requests),
        prompt_texts=prepared.prompt_texts,
        prompt_token_ids=[request.prompt_token_ids for request in prepared.requests],
        reasoning_effort=prepared.reasoning_effort,
    )

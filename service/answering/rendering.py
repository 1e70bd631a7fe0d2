"""Render the engine's outputs as the messages of a stream, and observe them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final, Generic

from service.answering.kind import Message, Renderer
from service.answering.message_group import MessageGroup, StreamPosition
from service.answering.observation import Observation
from service.generation.events import Completed, Event, Started, Usage
from service.generation.output import GenerationOutput
from service.generation.resume import ResumePoint, StreamIdentity
from service.output.answer import AnswerReader
from service.prompting.preparation import PreparedAnswer
from service.registry.models import ServedGenerator

# Of one output: with twenty candidates each, they take about five milliseconds.
_MAX_PROMPT_LOGPROBS: Final = 128


class Rendering(Generic[Message]):
    """Reads and renders one answer."""

    def __init__(
        self,
        model: ServedGenerator,
        prepared: PreparedAnswer,
        renderer: Renderer[Message],
        observation: Observation,
        *,
        identity: StreamIdentity,
        point: ResumePoint | None,
    ) -> None:
        self._reader = AnswerReader(prepared.requests, prepared.forms, model.tokenizer, answer_id=identity.id)
        self._renderer = renderer
        self._observation = observation
        self.requests = prepared.requests
        self._lacks_prompt = {index for index, each in enumerate(self.requests) if each.prompt_logprobs is not None}
        self._early: list[GenerationOutput] = []
        self._n = prepared.requests[0].n
        self._started = _started(model, prepared, identity)
        if point is not None:
            begun = {index // self._n for index, count in enumerate(point.position.ends) if count}
            self._reader.report_cached(sorted(begun), point.position.num_cached_tokens)

    def usage(self) -> Usage:
        """What the outputs so far cost."""
        images = [image for request in self.requests for image in request.images]
        return self._reader.usage()._replace(image_tokens=sum(image.end - image.start for image in images))

    async def read(self, output: GenerationOutput) -> list[MessageGroup[Message]]:
        """What an output adds.

        The prompt's logprobs come with its first choice, and stand at the beginning of each: the others wait for them.
        """
        prompt_index = output.request_index
        if prompt_index not in self._lacks_prompt:
            return [await self._part(output)]
        if output.choice_index:
            self._early.append(output)
            return []
        self._lacks_prompt.remove(prompt_index)
        waiting = [each for each in self._early if each.request_index == prompt_index]
        self._early = [each for each in self._early if each.request_index != prompt_index]
        return [await self._part(each) for each in (output, *waiting)]

    async def _part(self, output: GenerationOutput) -> MessageGroup[Message]:
        """A long prompt's logprobs are written by another thread."""
        if len(output.prompt_logprobs) > _MAX_PROMPT_LOGPROBS:
            messages = await asyncio.to_thread(self._read, output)
        else:
            messages = self._read(output)
        index = output.request_index * self._n + output.choice_index
        return MessageGroup(
            StreamPosition.CHOICE, messages, index, len(output.token_ids), self._reader.num_cached_tokens
        )

    def begin(self) -> MessageGroup[Message]:
        """The request was admitted."""
        return MessageGroup(StreamPosition.BEGINNING, self._render(self._started))

    def end(self) -> MessageGroup[Message]:
        """Every choice has ended."""
        messages = (*self._render(self.usage()), *self._render(Completed(time.time_ns())))
        return MessageGroup(StreamPosition.END, messages, num_cached_tokens=self._reader.num_cached_tokens)

    def break_off(self) -> MessageGroup[Message]:
        """The answer fails after it had begun."""
        return MessageGroup(StreamPosition.COST, self._render(self.usage()))

    def _render(self, *events: Event) -> Sequence[Message]:
        self._observation.observe(events)
        return list(self._renderer.render(events))

    def _read(self, output: GenerationOutput) -> Sequence[Message]:
        return self._render(*self._reader.read(output))


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

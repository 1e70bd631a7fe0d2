"""One call of any kind of generation: request in, numbered events out.

Whoever leaves the call leaves `engine.generate`, and that is the abort.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Generic, TypeAlias

from grpc import aio

from service.answering.admission import admitted
from service.answering.content import AnswerContent
from service.answering.kind import Answer, Kind, Message, Renderer, Request
from service.answering.observation import Observation
from service.call import current_caller, current_request_id, deadline_of
from service.generation.events import Completed, Event, Started
from service.generation.output import GenerationOutput
from service.output.answer import AnswerReader
from service.preparation import PreparedAnswer
from service.quota.charge import Charge
from service.quota.quota import Quota
from service.registry.models import Registry, ServedGenerator
from service.telemetry import Telemetry

Context: TypeAlias = aio.ServicerContext[Any, Any]

# Of one output: with twenty candidates each, they take about five milliseconds.
_MAX_PROMPT_LOGPROBS = 128


class Answering:
    """Answers requests of every kind."""

    def __init__(self, registry: Registry, telemetry: Telemetry, quota: Quota, *, capture_content: bool) -> None:
        """`capture_content` puts what was asked and answered onto the calls' spans."""
        self._registry = registry
        self._telemetry = telemetry
        self._quota = quota
        self._capture_content = capture_content

    async def whole(self, kind: Kind[Request, Message, Answer], request: Request, context: Context) -> Answer:
        """The fold of the stream."""
        folding = kind.fold()
        async with aclosing(self._numbered(kind, request, context, stream=False)) as messages:
            async for message in messages:
                folding.add(message)
        return folding.response

    async def stream(
        self, kind: Kind[Request, Message, Answer], request: Request, context: Context
    ) -> AsyncGenerator[Message, None]:
        """The numbered messages of one call.

        A failure is raised, after the usage if there were tokens: what preparation raises, and the engine's errors.
        """
        async with aclosing(self._numbered(kind, request, context, stream=True)) as messages:
            async for message in messages:
                yield message

    async def _numbered(
        self, kind: Kind[Request, Message, Answer], request: Request, context: Context, *, stream: bool
    ) -> AsyncGenerator[Message, None]:
        asked = kind.to_answer_request(request)
        model = self._registry.generator(asked.model, asked.deployment, asked.model_version)
        content = AnswerContent(kind.asked(request)) if self._capture_content else None
        deadline = deadline_of(context)
        with Observation(
            self._telemetry, kind.operation, model.name, deadline, stream=stream, content=content
        ) as observation:
            async with admitted(self._quota, model.name) as charge:
                bound = charge.bound(asked)
                prepared = await model.preparation.prepare(bound, current_request_id(), deadline, current_caller())
                await charge.take_for(asked, prepared.requests)
                sequence_number = 0
                messages = _messages(model, prepared, kind.renderer(request), observation, charge)
                async with aclosing(messages):
                    async for message in messages:
                        message.sequence_number = sequence_number
                        sequence_number += 1
                        yield message


class _Rendering(Generic[Message]):
    """One answer on its way from the engine's outputs to messages, observed in between."""

    def __init__(self, reader: AnswerReader, renderer: Renderer[Message], observation: Observation) -> None:
        self._reader = reader
        self._renderer = renderer
        self._observation = observation

    async def read(self, output: GenerationOutput) -> Sequence[Message]:
        """What an output adds; a long prompt's logprobs are written by another thread."""
        if len(output.prompt_logprobs) > _MAX_PROMPT_LOGPROBS:
            return await asyncio.to_thread(self._read, output)
        return self._read(output)

    def render(self, *events: Event) -> Sequence[Message]:
        """The messages of events that no output brought."""
        self._observation.observe(events)
        return list(self._renderer.render(events))

    def _read(self, output: GenerationOutput) -> Sequence[Message]:
        return self.render(*self._reader.read(output))


async def _messages(
    model: ServedGenerator,
    prepared: PreparedAnswer,
    renderer: Renderer[Message],
    observation: Observation,
    charge: Charge,
) -> AsyncGenerator[Message, None]:
    reader = AnswerReader(prepared.requests, prepared.forms, model.tokenizer)
    rendering = _Rendering(reader, renderer, observation)
    has_tokens = False
    try:
        async with model.engine.generate(*prepared.requests) as outputs:
            observation.admitted(reader.usage)
            charge.count(reader.usage)
            for message in rendering.render(_started(model, prepared)):
                yield message
            async for output in outputs:
                has_tokens = True
                for message in await rendering.read(output):
                    yield message
    except Exception:
        for message in rendering.render(reader.usage()) if has_tokens else ():
            yield message
        raise
    for message in (*rendering.render(reader.usage()), *rendering.render(Completed())):
        yield message


def _started(model: ServedGenerator, prepared: PreparedAnswer) -> Started:
    return Started(
        id=uuid.uuid4().hex,
        created_ns=time.time_ns(),
        model=model.name,
        model_version=model.description.version,
        fingerprint=model.description.fingerprint,
        sampling=prepared.sampling,
        stopping=prepared.stopping,
        n=prepared.requests[0].n,
        num_prompts=len(prepared.requests),
        prompt_texts=prepared.prompt_texts,
    )

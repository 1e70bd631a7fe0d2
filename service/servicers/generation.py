"""From a prepared request to the events of its stream, for every kind of generation.

Owns the order of a stream's events, their numbers and what is observed of them. Only the loop's thread runs it. It
knows neither templates nor schedulers; whoever leaves the call leaves `engine.generate`, and that is the abort.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Protocol, TypeAlias, TypeVar

from grpc import aio

from service.call import current_request_id, deadline_of
from service.generation.errors import InvalidRequest
from service.generation.output import GenerationOutput
from service.pipeline.prepared import Event, Identity, Numbered, Prepared
from service.servicers.catalog import ServedModel
from service.servicers.observation import Observation
from service.telemetry import Telemetry

Context: TypeAlias = aio.ServicerContext[Any, Any]

# Makes a request ready to run; is given the request's id and the call's deadline, an instant of `time.monotonic()`.
Prepare: TypeAlias = Callable[[str, float | None], Awaitable[Prepared[Event]]]

# Of one output: with twenty candidates each, they take about five milliseconds.
_MAX_PROMPT_LOGPROBS = 128

_Event_contra = TypeVar("_Event_contra", bound=Numbered, contravariant=True)

# The engine's names of what may be wrong with a request, where the contract has others.
_FIELDS = {
    "logprobs": "logprobs.top_logprobs",
    "prompt_logprobs": "logprobs.top_logprobs",
    "max_tokens": "stopping.max_tokens",
    "min_tokens": "stopping.min_tokens",
    "stop": "stopping.stop",
    "temperature": "sampling.temperature",
    "top_k": "sampling.top_k",
    "top_p": "sampling.top_p",
    "min_p": "sampling.min_p",
    "typical_p": "sampling.typical_p",
    "repetition_penalty": "sampling.repetition_penalty",
    "frequency_penalty": "sampling.frequency_penalty",
    "presence_penalty": "sampling.presence_penalty",
    "logit_bias": "sampling.logit_bias",
}


class Content(Protocol[_Event_contra]):
    """What was asked and what is answered, for the span of those who opted in."""

    def add(self, event: _Event_contra) -> None:
        """Note what an event adds to the answer."""

    def attributes(self) -> dict[str, str]:
        """The span's attributes."""


async def generate(
    telemetry: Telemetry,
    operation: str,
    model: ServedModel,
    context: Context,
    prepare: Prepare[Event],
    *,
    stream: bool,
    content: Content[Event] | None = None,
) -> AsyncGenerator[Event, None]:
    """The numbered events of one call. A failure is raised, after `usage` if there were tokens.

    `operation` is the GenAI conventions' name of it. Raises what `prepare` raises, and the engine's errors with the
    contract's names of fields.
    """
    deadline = deadline_of(context)
    with Observation(telemetry, operation, model.name, deadline, stream=stream, content=content) as observation:
        sequence_number = 0
        async with aclosing(_unnumbered(model, deadline, prepare, observation)) as events:
            async for event in events:
                event.sequence_number = sequence_number
                sequence_number += 1
                if content is not None:
                    content.add(event)
                yield event


async def _unnumbered(
    model: ServedModel, deadline: float | None, prepare: Prepare[Event], observation: Observation
) -> AsyncGenerator[Event, None]:
    prepared = await prepare(current_request_id(), deadline)
    has_tokens = False
    try:
        async with model.engine.generate(*prepared.generations) as outputs:
            identity = Identity.now(model.description)
            observation.admitted(identity, prepared)
            for event in prepared.started(identity):
                yield event
            async for output in outputs:
                has_tokens = True
                observation.generated(output)
                for event in await _events(prepared, output):
                    yield event
    except Exception as error:
        if isinstance(error, InvalidRequest):
            error.field = _field(error, prepared)
        if has_tokens:
            for event in prepared.broken_off():
                yield event
        raise
    for event in prepared.completed():
        yield event


async def _events(prepared: Prepared[Event], output: GenerationOutput) -> Iterable[Event]:
    """What an output adds to the stream; a long prompt's logprobs are written by another thread."""
    if len(output.prompt_logprobs) <= _MAX_PROMPT_LOGPROBS:
        return prepared.events(output)
    return await asyncio.to_thread(lambda: list(prepared.events(output)))


def _field(error: InvalidRequest, prepared: Prepared[Event]) -> str:
    if error.field == "prompt":
        return prepared.prompt_fields[error.request_index]
    return _FIELDS.get(error.field, error.field)

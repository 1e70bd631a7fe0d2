"""Answer one call of any kind of generation: a request in, numbered messages out.

Leaving the call leaves `engine.generate`, which aborts the request.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from grpc import aio

from service.answering.admission import admitted
from service.answering.answer_events import MAX_INLINE_LOGPROBS, AnswerEvents
from service.answering.idempotent_calls import call_name
from service.answering.kind import Answer, Kind, Message, Renderer, Request, Sized
from service.answering.loop_turns import LoopTurns
from service.answering.receipts import Receipts
from service.answering.resumable_stream import ResumableStream
from service.answering.stream_identity import stream_identity
from service.answering.telemetry.content import AnswerContent
from service.answering.telemetry.observation import Observation
from service.calls.call import (
    Timed,
    current_call,
    current_caller,
    current_request_id,
    current_wait_s,
    deadline_of,
    route_call,
)
from service.contract.parts.resume import stream_bytes
from service.deployment.residency.residency import Residency
from service.generation.errors import InvalidRequest, UnsupportedFeature
from service.generation.outputs.events import Event, PromptLogprobs, Text
from service.generation.outputs.output import PrefillProgress
from service.generation.requests.answer_request import AnswerRequest
from service.observability.telemetry import Telemetry
from service.prompting.preparation import PreparedAnswer
from service.quota.charge import Charge
from service.quota.quota import Quota
from service.registry.models import ServedGenerator
from service.registry.registry import Registry

Context: TypeAlias = aio.ServicerContext[Any, Any]

_REPLICA = random.SystemRandom().getrandbits(32)  # distinguishes the limits of replicas
_MAX_INTERVAL_MS = 3_600_000  # between the ends of two answers, as sent to Envoy
_TURN = 256  # messages that are folded before other calls continue
_TOO_LARGE = "the answer has more than {} bytes, which is the limit; ask for fewer logprobs or choices, or stream it"


class Answering:
    """Answers requests of every kind."""

    def __init__(
        self,
        registry: Registry,
        telemetry: Telemetry,
        quota: Quota,
        receipts: Receipts,
        residency: Residency,
        *,
        capture_content: bool,
        max_answer_bytes: int,
    ) -> None:
        """`capture_content` records requests and answers on the calls' spans.

        `max_answer_bytes` limits the size of an unstreamed answer's message.
        """
        self._registry = registry
        self._telemetry = telemetry
        self._quota = quota
        self._receipts = receipts
        self._residency = residency
        self._capture_content = capture_content
        self._max_answer_bytes = max_answer_bytes

    async def whole(self, kind: Kind[Request, Message, Answer], request: Request, context: Timed) -> Answer:
        """Return the fold of the stream. Raise what `stream` raises, and InvalidRequest if the answer is too large."""
        async with aclosing(self.messages(kind, request, context, stream=False)) as messages:
            return await self.fold(kind, messages)

    async def fold(self, kind: Kind[Request, Message, Answer], messages: AsyncIterable[Message]) -> Answer:
        """Return the whole answer that has these messages. Raise InvalidRequest if it is too large."""
        folding = kind.fold()
        num_bytes = num_messages = 0
        async for message in messages:
            folding.add(message)
            num_bytes += message.ByteSize()
            if num_bytes > self._max_answer_bytes:
                num_bytes = self.size(folding.response)  # less than that of the messages, which repeat fields
            num_messages += 1
            if num_messages % _TURN == 0:  # the messages may have been there before
                await asyncio.sleep(0)
        self.size(folding.response)
        return folding.response

    def size(self, answer: Sized) -> int:
        """Return the size in bytes. Raise InvalidRequest if it exceeds the limit."""
        num_bytes = answer.ByteSize()
        if num_bytes > self._max_answer_bytes:
            raise InvalidRequest("logprobs", _TOO_LARGE.format(self._max_answer_bytes))
        return num_bytes

    async def stream(
        self, kind: Kind[Request, Message, Answer], request: Request, context: Timed
    ) -> AsyncGenerator[Message, None]:
        """Yield the numbered messages of one call.

        Raise the errors of preparation and of the engine. If tokens were generated, the usage is sent before the error.
        """
        async with aclosing(self.messages(kind, request, context, stream=True)) as messages:
            async for message in messages:
                yield message

    async def plan(
        self, kind: Kind[Request, Message, Answer], request: Request, deadline: float | None, answer_id: str
    ) -> tuple[bytes, Sequence[Message]]:
        """Check a request without generating anything.

        Return the identity with which `stream` resumes its answer from the beginning, and the messages of the
        beginning. `answer_id` has 32 hexadecimal digits. Raise the errors of preparation, and UnsupportedFeature if the
        answer could not be generated twice.
        """
        answer_request, model = self._routed(kind.to_answer_request(request))
        if not model.description.supports_resume:
            raise UnsupportedFeature("background", "the model's backend doesn't promise the same tokens twice")
        caller = current_caller()
        bound = self._quota.bound(caller, model.name, answer_request)
        prepared = await model.preparation.prepare(bound, current_request_id(), deadline, caller)
        identity = stream_identity(model, prepared, None, answer_id)
        if bound.wants_receipt:
            await self._receipts.open(model, prepared, identity)  # raises what its generation would raise
        begin = AnswerEvents(model, prepared, identity, None).begin()
        return stream_bytes(identity, num_choices=1), kind.renderer(request).render(begin)

    def _routed(self, request: AnswerRequest) -> tuple[AnswerRequest, ServedGenerator]:
        """Return a request with its service level, and the model that serves it."""
        visible = self._registry.visible_to(current_caller(), route_call)
        resumed_model = request.resume.identity.model if request.resume is not None else ""
        model = visible.generator(request.model, request.deployment, request.model_version, resumed_model)
        level = request.service_level.or_else(visible.service_level(request.model))
        return replace(request, service_level=level), model

    async def messages(
        self, kind: Kind[Request, Message, Answer], request: Request, context: Timed, *, stream: bool
    ) -> AsyncGenerator[Message, None]:
        """Yield the numbered messages of one call, for a stream or for a fold. Raise the errors of `stream`."""
        answer_request = kind.to_answer_request(request)
        point = answer_request.resume
        if point is not None and not stream:
            raise InvalidRequest("resume", "only a streaming call can be resumed")
        if not stream:
            answer_request = replace(answer_request, separates_tokens=False)
        if not stream or point is not None:
            answer_request = replace(answer_request, reports_progress=False)
        caller = current_caller()
        answer_request, model = self._routed(answer_request)
        content = AnswerContent(kind.request_attributes(request)) if self._capture_content else None
        deadline = deadline_of(context)
        with Observation(
            self._telemetry, kind.operation, model.name, deadline, stream=stream, content=content
        ) as observation:
            _send_limit(model)
            # The number of a batch's requests is limited, and they yield to all others.
            if not (caller.is_batch or self._residency.must_wait(model.name)):
                model.engine.reject_if_overloaded(caller.id, caller.weight, deadline, current_wait_s())
            async with (
                admitted(self._quota, model.name) as charge,
                self._residency.held(model.name, caller, deadline, answer_request.keep_s) as load_wait_s,
            ):
                model = self._registry.visible_to(caller).generator(model.name)  # another one after a reload
                bound = charge.bound(answer_request)
                prepared = await model.preparation.prepare(bound, current_request_id(), deadline, caller)
                await charge.take_for(answer_request, prepared.requests)
                identity = stream_identity(model, prepared, point, bound.answer_id, call_name(caller.id, request))
                num_choices = prepared.requests[0].n * len(prepared.requests)
                receipt = await self._receipts.open(model, prepared, identity) if bound.wants_receipt else None
                can_resume = stream and model.description.supports_resume
                resumable: ResumableStream[Message] = ResumableStream(
                    num_choices, stream_bytes(identity, num_choices) if can_resume else b"", point
                )
                prepared = _with_output_ends(prepared, resumable.output_ends) if point is not None else prepared
                answer = AnswerEvents(model, prepared, identity, point, receipt, load_wait_s=load_wait_s)
                renderer = kind.renderer(request)
                async with aclosing(_event_groups(model, prepared, answer, observation, charge)) as groups:
                    async for events in groups:
                        observation.observe(events)
                        for message in resumable.number(events, await _render(renderer, events)):
                            yield message


async def _event_groups(
    model: ServedGenerator, prepared: PreparedAnswer, answer: AnswerEvents, observation: Observation, charge: Charge
) -> AsyncGenerator[Sequence[Event], None]:
    """Yield the events of the beginning, of each output and of the end."""
    has_tokens = False
    turns = LoopTurns()
    try:
        async with model.engine.generate(*prepared.requests) as outputs:
            observation.admitted(answer.usage, prepared.requests[0].service_level)
            # Tokens were computed, and are charged, even if the client did not wait for them.
            charge.count(lambda: answer.usage()._replace(completion_tokens=outputs.num_tokens))
            await outputs.until_started()  # before that, the call can be rejected and served by another replica
            yield answer.begin()
            async for output in outputs.with_progress():
                if isinstance(output, PrefillProgress):
                    if events := answer.progress(output):
                        yield events
                    continue
                has_tokens = True
                for events in await answer.read(output):
                    yield events
                await turns.yield_if_due(output)
    except Exception:
        if has_tokens:
            yield answer.fail()
        raise
    yield answer.end()


def _send_limit(model: ServedGenerator) -> None:
    """Send the limit of requests in flight with the call's metadata. Envoy adds up those of all models and replicas.

    It is that of the time at which the metadata are sent: a whole answer's are sent at its end.
    """
    if (call := current_call()) is not None:
        call.in_flight_limit = partial(_limit_of, model)


def _limit_of(model: ServedGenerator) -> str:
    """Return the limit of requests in flight of a model as text; empty if it is unknown."""
    if (limit := model.engine.in_flight_limit()) is None:
        return ""
    source = zlib.crc32(model.name.encode()) ^ _REPLICA
    interval_ms = min(max(round(1000 * limit.interval_s), 1), _MAX_INTERVAL_MS)
    return f"{source};{limit.sustained};{limit.burst};{limit.is_overloaded:d};{interval_ms}"


async def _render(renderer: Renderer[Message], events: Sequence[Event]) -> Sequence[Message]:
    """Return the messages of a group of events. Many logprobs are rendered on another thread."""
    if any(isinstance(event, PromptLogprobs | Text) and len(event.logprobs) > MAX_INLINE_LOGPROBS for event in events):
        return await asyncio.to_thread(renderer.render, events)
    return renderer.render(events)


def _with_output_ends(prepared: PreparedAnswer, output_ends: Sequence[Sequence[int]]) -> PreparedAnswer:
    """Return `prepared` with `output_ends`, given for all choices of all requests."""
    n = prepared.requests[0].n
    requests = [
        replace(request, output_ends=dict(enumerate(output_ends[index * n : (index + 1) * n])))
        for index, request in enumerate(prepared.requests)
    ]
    return replace(prepared, requests=requests)

"""One call of any kind of generation: request in, numbered events out.

Whoever leaves the call leaves `engine.generate`, and that is the abort.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

from grpc import aio

from service.answering.admission import admitted
from service.answering.content import AnswerContent
from service.answering.course import Course
from service.answering.kind import Answer, Kind, Message, Request
from service.answering.message_group import MessageGroup
from service.answering.observation import Observation
from service.answering.rendering import Rendering
from service.call import current_caller, current_request_id, current_wait_s, deadline_of, route_call
from service.generation.errors import InvalidRequest
from service.observability.telemetry import Telemetry
from service.quota.charge import Charge
from service.quota.quota import Quota
from service.registry.models import ServedGenerator
from service.registry.registry import Registry

Context: TypeAlias = aio.ServicerContext[Any, Any]

_TOO_LARGE = "the answer has more than {} bytes, which is the limit; ask for fewer logprobs or choices, or stream it"


class Answering:
    """Answers requests of every kind."""

    def __init__(
        self,
        registry: Registry,
        telemetry: Telemetry,
        quota: Quota,
        *,
        capture_content: bool,
        max_answer_bytes: int,
    ) -> None:
        """`capture_content` puts what was asked and answered onto the calls' spans.

        `max_answer_bytes` is the size of the largest whole answer, as a message.
        """
        self._registry = registry
        self._telemetry = telemetry
        self._quota = quota
        self._capture_content = capture_content
        self._max_answer_bytes = max_answer_bytes

    async def whole(self, kind: Kind[Request, Message, Answer], request: Request, context: Context) -> Answer:
        """The fold of the stream. Raises InvalidRequest, beside what the stream does, if it becomes too large."""
        folding = kind.fold()
        num_bytes = 0
        async with aclosing(self._numbered(kind, request, context, stream=False)) as messages:
            async for message in messages:
                folding.add(message)
                num_bytes += message.ByteSize()
                if num_bytes > self._max_answer_bytes:
                    num_bytes = self._size(folding.response)  # less than the messages, some of which say things again
        self._size(folding.response)
        return folding.response

    def _size(self, answer: Answer) -> int:
        """In bytes. Raises InvalidRequest for too many."""
        num_bytes = answer.ByteSize()
        if num_bytes > self._max_answer_bytes:
            raise InvalidRequest("logprobs", _TOO_LARGE.format(self._max_answer_bytes))
        return num_bytes

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
        point = asked.resume
        if point is not None and not stream:
            raise InvalidRequest("resume", "only a call that streams can go on")
        began = point.identity.model if point is not None else ""
        caller = current_caller()
        visible = self._registry.visible_to(caller, route_call)
        model = visible.generator(asked.model, asked.deployment, asked.model_version, began)
        content = AnswerContent(kind.asked(request)) if self._capture_content else None
        deadline = deadline_of(context)
        with Observation(
            self._telemetry, kind.operation, model.name, deadline, stream=stream, content=content
        ) as observation:
            model.engine.refuse_if_busy(caller.id, caller.weight, deadline, current_wait_s())
            async with admitted(self._quota, model.name) as charge:
                bound = charge.bound(asked)
                prepared = await model.preparation.prepare(bound, current_request_id(), deadline, caller)
                await charge.take_for(asked, prepared.requests)
                course: Course[Message] = Course(model, prepared, point, streams=stream)
                answer = Rendering(
                    model,
                    course.prepared,
                    kind.renderer(request),
                    observation,
                    identity=course.identity,
                    point=point,
                )
                async with aclosing(_parts(model, answer, observation, charge)) as parts:
                    async for part in parts:
                        for message in course.take(part):
                            yield message


async def _parts(
    model: ServedGenerator, answer: Rendering[Message], observation: Observation, charge: Charge
) -> AsyncGenerator[MessageGroup[Message], None]:
    has_tokens = False
    try:
        async with model.engine.generate(*answer.requests) as outputs:
            observation.admitted(answer.usage)
            # Who reads slowly and leaves has had computed what it didn't read, too.
            charge.count(lambda: answer.usage()._replace(completion_tokens=outputs.num_tokens))
            await outputs.begun()  # until then the call may be refused, and be served elsewhere
            yield answer.begin()
            async for output in outputs:
                has_tokens = True
                for part in await answer.read(output):
                    yield part
    except Exception:
        if has_tokens:
            yield answer.break_off()
        raise
    yield answer.end()

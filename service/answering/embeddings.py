"""Answer one call for embeddings. A cancelled call leaves `engine.embed`, which aborts the request."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from sluice.v1 import embedding_pb2, usage_pb2

from service.answering.admission import admitted
from service.answering.telemetry.operation import Operation, Stage
from service.calls.call import Timed, current_caller, current_request_id, deadline_of, route_call
from service.contract.encodings.embedding import embedding_messages, to_texts
from service.contract.parts.answer import timestamp
from service.deployment.residency.residency import Residency
from service.generation.outputs.events import Usage
from service.observability.telemetry import Telemetry
from service.quota.limit import Measure
from service.quota.quota import Quota
from service.registry.registry import Registry


class Embeddings:
    """Answers requests for embeddings."""

    def __init__(self, registry: Registry, telemetry: Telemetry, quota: Quota, residency: Residency) -> None:
        self._registry = registry
        self._residency = residency
        self._telemetry = telemetry
        self._quota = quota

    async def embed(self, request: embedding_pb2.EmbedRequest, context: Timed) -> embedding_pb2.EmbedResponse:
        """Return the vectors of the inputs. Raise the errors of preparation and of the engine."""
        texts = to_texts(request)
        caller = current_caller()
        model = self._registry.visible_to(caller, route_call).encoder(texts.model, texts.deployment)
        deadline = deadline_of(context)
        with Operation(self._telemetry, "embeddings", model.name, deadline) as operation:
            if texts.dimensions is not None:
                operation.set({"gen_ai.embeddings.dimension.count": texts.dimensions})
            async with (
                admitted(self._quota, model.name, (Measure.INPUT_TOKENS,)) as charge,
                self._residency.held(model.name, caller, deadline, texts.keep_s),
            ):
                model = self._registry.visible_to(caller).encoder(model.name)  # another one after a reload
                if not caller.is_batch:  # their number is limited, and they yield to all others
                    model.engine.reject_if_overloaded(caller.id, caller.weight, len(texts.inputs))
                prepared = await model.prompts.prepare(texts, current_request_id(), deadline, caller)
                num_tokens = sum(map(len, prepared.inputs))
                await charge.take_input(num_tokens, "inputs")
                charge.count(lambda: Usage(num_tokens))
                answer_id, created_ns = uuid.uuid4().hex, time.time_ns()
                operation.set_response(answer_id, model.name)
                output = await model.engine.embed(prepared)
            operation.add_stages(
                [Stage("queue", output.arrived, output.scheduled), Stage("encode", output.scheduled, output.finished)]
            )
            operation.record_tokens("input", num_tokens)
            operation.record_cost(output.compute_s)

            def respond(vectors: Sequence[Sequence[float]]) -> embedding_pb2.EmbedResponse:
                return embedding_pb2.EmbedResponse(
                    id=answer_id,
                    created=timestamp(created_ns),
                    model=model.name,
                    embeddings=embedding_messages(vectors),
                    usage=usage_pb2.Usage(prompt_tokens=num_tokens),
                )

            return await model.prompts.finish(output.vectors, texts.dimensions, respond)

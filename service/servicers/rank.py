"""sluice.v1.RankService. A cancelled call leaves the engine, which aborts the request."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from sluice.v1 import rank_pb2, rank_pb2_grpc, usage_pb2

from service.answering.admission import admitted
from service.answering.telemetry.operation import Operation, Stage
from service.calls.call import Timed, current_caller, current_request_id, deadline_of, route_call
from service.contract.encodings.rank import ranked, to_ranking, to_scoring
from service.contract.parts.answer import timestamp
from service.deployment.residency.residency import Residency
from service.generation.outputs.events import Usage
from service.generation.requests.ranking import TextsToRank, activated
from service.observability.telemetry import Telemetry
from service.quota.limit import Measure
from service.quota.quota import Quota
from service.registry.registry import Registry


@dataclass(frozen=True, slots=True)
class _Scored:
    """The result of a request."""

    answer_id: str
    created_ns: int
    model: str
    scores: list[float]
    num_tokens: int


class RankServicer(rank_pb2_grpc.RankServiceServicer):
    """Implements RankService."""

    def __init__(self, registry: Registry, telemetry: Telemetry, quota: Quota, residency: Residency) -> None:
        self._registry = registry
        self._residency = residency
        self._telemetry = telemetry
        self._quota = quota

    async def Rank(self, request: rank_pb2.RankRequest, context: Timed) -> rank_pb2.RankResponse:  # noqa: N802
        scored = await self._score(to_ranking(request), context, raw=request.options.raw_scores)
        return rank_pb2.RankResponse(
            id=scored.answer_id,
            created=timestamp(scored.created_ns),
            model=scored.model,
            results=ranked(scored.scores, request.top_n if request.HasField("top_n") else None),
            usage=usage_pb2.Usage(prompt_tokens=scored.num_tokens),
        )

    async def Score(self, request: rank_pb2.ScoreRequest, context: Timed) -> rank_pb2.ScoreResponse:  # noqa: N802
        scored = await self._score(to_scoring(request), context, raw=request.options.raw_scores)
        return rank_pb2.ScoreResponse(
            id=scored.answer_id,
            created=timestamp(scored.created_ns),
            model=scored.model,
            scores=scored.scores,
            usage=usage_pb2.Usage(prompt_tokens=scored.num_tokens),
        )

    async def _score(self, texts: TextsToRank, context: Timed, *, raw: bool) -> _Scored:
        """Return the scores of all pairs."""
        caller = current_caller()
        model = self._registry.visible_to(caller, route_call).ranking(texts.model, texts.deployment)
        deadline = deadline_of(context)
        # The GenAI conventions have no name for this operation.
        with Operation(self._telemetry, "rank", model.name, deadline) as operation:
            operation.set({"sluice.rank.document.count": len(texts.documents)})
            async with (
                admitted(self._quota, model.name, (Measure.INPUT_TOKENS,)) as charge,
                self._residency.held(model.name, caller, deadline, texts.keep_s),
            ):
                model = self._registry.visible_to(caller).ranking(model.name)  # another one after a reload
                prepared = await model.ranker.prepare(texts, current_request_id(), deadline, caller)
                await charge.take_input(prepared.num_tokens, "documents")
                charge.count(lambda: Usage(prepared.num_tokens))
                answer_id, created_ns = uuid.uuid4().hex, time.time_ns()
                operation.set_response(answer_id, model.name)
                output = await prepared.run()
            operation.add_stages(
                [Stage("queue", output.arrived, output.scheduled), Stage("score", output.scheduled, output.finished)]
            )
            operation.record_tokens("input", prepared.num_tokens)
            operation.record_cost(output.compute_s, output.block_s)
        activation = "identity" if raw else model.ranker.activation
        scores = [activated(score, activation) for score in output.scores]
        return _Scored(answer_id, created_ns, model.name, scores, prepared.num_tokens)

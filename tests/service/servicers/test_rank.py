"""RankService on a running server: order, scores, limits, errors and telemetry, with scripted models."""

from __future__ import annotations

import math
from typing import Any

import grpc
import numpy as np
import pytest
from sluice.v1 import model_pb2, rank_pb2, serving_pb2

from tests.engine.encoder_fakes import BEGIN, FINISH
from tests.engine.fakes import until
from tests.engine.vectors import vector_of
from tests.service.encoder_fakes import CROSS, ENCODER, running_encoder
from tests.service.fakes import MODEL, rejection_of
from tests.service.observability.test_observation import samples

DOCUMENTS = ["bb", "dddd", "c", "eeee"]
TRUNCATE = serving_pb2.ServingOptions(error_behavior=serving_pb2.ERROR_BEHAVIOR_TRUNCATE)


def rank(**fields: Any) -> rank_pb2.RankRequest:
    """Return a valid request; the scripted cross-encoder scores by length."""
    return rank_pb2.RankRequest(**{"model": CROSS, "query": "aaa", "documents": DOCUMENTS, **fields})


def cosine(first: str, second: str) -> float:
    one, other = (np.array(vector_of([BEGIN, *text.encode(), FINISH])) for text in (first, second))
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


async def test_documents_are_sorted_by_score() -> None:
    """Documents are sorted best first, ties in request order, with their indices.

    The query counts for each document.
    """
    async with running_encoder() as run:
        answer: rank_pb2.RankResponse = await run.ranks.Rank(rank(options={"raw_scores": True}))
        other: rank_pb2.RankResponse = await run.ranks.Rank(rank())
    assert [(each.index, each.score) for each in answer.results] == [(1, 7), (3, 7), (0, 5), (2, 4)]
    assert (answer.model, answer.usage.prompt_tokens, answer.usage.completion_tokens) == (CROSS, 23, 0)
    assert answer.created.seconds > 0
    assert answer.id != other.id
    assert [each.score for each in other.results] == pytest.approx([1 / (1 + math.exp(-n)) for n in (7, 7, 5, 4)])


@pytest.mark.parametrize(("top_n", "indices"), [(1, [1]), (3, [1, 3, 0]), (9, [1, 3, 0, 2])])
async def test_the_best_documents_are_returned(top_n: int, indices: list[int]) -> None:
    """The requested number of documents is returned, or all of them."""
    async with running_encoder() as run:
        answer = await run.ranks.Rank(rank(top_n=top_n))
    assert [each.index for each in answer.results] == indices


async def test_documents_are_truncated_on_request() -> None:
    """`max_tokens_per_document` truncates each; longer documents are truncated on request, else rejected."""
    async with running_encoder() as run:
        options = {"max_tokens_per_document": 2, "raw_scores": True}
        cut = await run.ranks.Rank(rank(options=options))
        long = rank(documents=["b", "x" * 20], options={"raw_scores": True})
        rejection = await rejection_of(run.ranks.Rank(long))
        long.serving.CopyFrom(TRUNCATE)
        answer = await run.ranks.Rank(long)
    assert [(each.index, each.score) for each in cut.results] == [(0, 5), (1, 5), (3, 5), (2, 4)]
    assert (rejection.info.reason, rejection.fields[0][0]) == ("PROMPT_TOO_LONG", "documents[1]")
    assert [(each.index, each.score) for each in answer.results] == [(1, 16), (0, 4)]


async def test_vectors_are_compared_by_their_cosine() -> None:
    """With an embedding model, each text is computed once."""
    async with running_encoder() as run:
        answer = await run.ranks.Rank(rank(model=ENCODER))
        (batch,) = run.runner.batches
    expected = {index: cosine("aaa", text) for index, text in enumerate(DOCUMENTS)}
    assert {each.index: each.score for each in answer.results} == pytest.approx(expected)
    assert [each.index for each in answer.results] == sorted(expected, key=lambda index: -expected[index])
    assert len(batch) == 5
    assert answer.usage.prompt_tokens == sum(map(len, batch))


async def test_scores_are_in_the_order_of_the_pairs() -> None:
    """A request has one query for all documents, or one query per document."""
    async with running_encoder() as run:
        shared = await run.ranks.Score(
            rank_pb2.ScoreRequest(model=CROSS, queries=["aaa"], documents=DOCUMENTS, options={"raw_scores": True})
        )
        paired = await run.ranks.Score(rank_pb2.ScoreRequest(model=ENCODER, queries=["a", "bb"], documents=["c", "d"]))
    assert (list(shared.scores), shared.usage.prompt_tokens, shared.model) == ([5, 7, 4, 7], 23, CROSS)
    assert list(paired.scores) == pytest.approx([cosine("a", "c"), cosine("bb", "d")])
    assert paired.id


@pytest.mark.parametrize(
    ("fields", "reason", "field"),
    [
        ({"model": ""}, "INVALID_FIELD", "model"),
        ({"query": ""}, "INVALID_FIELD", "query"),
        ({"query": "x" * 65_537}, "INVALID_FIELD", "query"),
        ({"documents": []}, "INVALID_FIELD", "documents"),
        ({"documents": ["a"] * 2049}, "INVALID_FIELD", "documents"),
        ({"documents": ["a", ""]}, "INVALID_FIELD", "documents[1]"),
        ({"top_n": 0}, "INVALID_FIELD", "top_n"),
        ({"options": {"max_tokens_per_document": 0}}, "INVALID_FIELD", "options.max_tokens_per_document"),
        ({"options": {"instruction": "x" * 16_385}}, "INVALID_FIELD", "options.instruction"),
        ({"options": {"instruction": "find"}}, "INVALID_FIELD", "options.instruction"),
        ({"serving": {"priority": -1}}, "INVALID_FIELD", "serving.priority"),
        ({"model": MODEL}, "UNSUPPORTED_TASK", "model"),
        ({"model": ENCODER, "query": "x" * 30}, "PROMPT_TOO_LONG", "query"),
        ({"model": ENCODER, "documents": ["a", "x" * 30]}, "PROMPT_TOO_LONG", "documents[1]"),
    ],
)
async def test_rank_rejects_bad_input(fields: dict[str, Any], reason: str, field: str) -> None:
    """A request is rejected with INVALID_ARGUMENT and the field; the next request succeeds."""
    async with running_encoder() as run:
        rejection = await rejection_of(run.ranks.Rank(rank(**fields)))
        assert (await run.ranks.Rank(rank())).results
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert rejection.fields[0][0] == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"queries": ["a", "b"]}, "queries"),
        ({"queries": []}, "queries"),
        ({"queries": ["a", "", "b"]}, "queries[1]"),
        ({"documents": []}, "documents"),
        ({"model": ENCODER, "queries": ["a", "x" * 30, "c"]}, "queries[1]"),
    ],
)
async def test_score_rejects_bad_input(fields: dict[str, Any], field: str) -> None:
    """Score rejects requests as Rank does."""
    request = {"model": CROSS, "queries": ["a"], "documents": ["b", "c", "d"], **fields}
    async with running_encoder() as run:
        rejection = await rejection_of(run.ranks.Score(rank_pb2.ScoreRequest(**request)))
    assert (rejection.code, rejection.fields[0][0]) == (grpc.StatusCode.INVALID_ARGUMENT, field)


async def test_model_list_has_the_ranking_task() -> None:
    """The list of models has the task of ranking for these models only."""
    async with running_encoder() as run:
        listed = await run.models.ListModels(model_pb2.ListModelsRequest())
    tasks = {model.name: list(model.tasks) for model in listed.models}
    assert tasks[CROSS] == [model_pb2.TASK_RANK]
    assert tasks[ENCODER] == [model_pb2.TASK_EMBEDDING, model_pb2.TASK_RANK]
    assert model_pb2.TASK_RANK not in tasks[MODEL]


async def test_cancelled_rank_is_not_computed() -> None:
    """The engine drops the pairs of a cancelled call."""
    async with running_encoder({"max_batch_tokens": 64}) as run:
        with run.runner.paused():
            call = run.ranks.Rank(rank(model=ENCODER, documents=["left"] * 100))
            await until(run.runner.entered.is_set)
            call.cancel()
            await until(lambda: not run.engine.num_open)
        await run.until_idle()
        assert len(run.runner.batches) == 1


@pytest.mark.slow
async def test_ranking_is_recorded_in_telemetry() -> None:
    """The span has stages, and tokens are counted by the model's name."""
    async with running_encoder() as run:
        answer = await run.ranks.Rank(rank())
        await until(lambda: len(run.spans.get_finished_spans()) >= 4)
        spans = {span.name: span for span in run.spans.get_finished_spans()}
        usage = samples(run, "gen_ai_client_token_usage_sum")  # type: ignore[arg-type]  # it has a telemetry
    span = spans[f"rank {CROSS}"]
    attributes = dict(span.attributes or {})
    assert isinstance(cost := attributes.pop("sluice.cost.compute"), float)
    assert cost > 0
    assert attributes.pop("sluice.cost.block") == 0
    assert attributes == {
        "gen_ai.operation.name": "rank",
        "gen_ai.provider.name": "sluice",
        "gen_ai.request.model": CROSS,
        "gen_ai.response.model": CROSS,
        "gen_ai.response.id": answer.id,
        "sluice.rank.document.count": 4,
        "gen_ai.usage.input_tokens": 23,
        "sluice.endpoint": CROSS,
        "sluice.entity": CROSS,
        "sluice.key": "anonymous",
    }
    assert {"queue", "score"} <= set(spans)
    assert list(usage.values()) == [23]

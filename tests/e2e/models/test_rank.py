"""Reranking in the whole product: with the bundled encoder, and with models of the other kinds."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from sluice.v1 import rank_pb2, rank_pb2_grpc

from tests.e2e.stack import Stack, started
from tests.engine.pair_fakes import PAIRS, reference_scores, save_cross_encoder
from tests.service.ranking.test_judge import DOCUMENTS as JUDGED
from tests.service.ranking.test_judge import QUERY, TEMPLATE
from tests.service.ranking.test_judge import save as save_judge
from tests.waiting import GUARD_S

ENCODER = "all-minilm-l6-v2"
DOCUMENTS = ["interest rates rose again", "a cat sleeps on the mat", "a motorway at night"]
RERANK = {"model": ENCODER, "query": "a kitten", "documents": DOCUMENTS}


def post(stack: Stack, path: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{stack.url}{path}", json=body, timeout=GUARD_S)


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
def test_most_similar_document_is_first(stack: Stack, path: str) -> None:
    """Scores on every path are the cosines of the vectors from /v1/embeddings."""
    texts = [RERANK["query"], *DOCUMENTS]
    data = post(stack, "/v1/embeddings", {"model": ENCODER, "input": texts}).json()["data"]
    query, *others = (np.array(each["embedding"]) for each in data)
    answer = post(stack, path, RERANK).json()
    found = {each["index"]: each["relevance_score"] for each in answer["results"]}
    assert found == pytest.approx({index: float(query @ other) for index, other in enumerate(others)}, abs=1e-5)
    assert next(iter(found)) == 1
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert answer["usage"]["total_tokens"] == answer["meta"]["tokens"]["input_tokens"] > 20
    texts = [each.get("document", {}).get("text") for each in answer["results"]]
    assert texts == ([DOCUMENTS[index] for index in found] if path == "/rerank" else [None] * 3)


@pytest.mark.parametrize("path", ["/v1/score", "/score"])
def test_scores_are_in_the_order_of_the_input_pairs(stack: Stack, path: str) -> None:
    """Scores equal a rerank's, in the order of the pairs."""
    answer = post(stack, path, {"model": ENCODER, "text_1": "a kitten", "text_2": DOCUMENTS}).json()
    ranked = post(stack, "/v1/rerank", RERANK).json()["results"]
    expected = {each["index"]: each["relevance_score"] for each in ranked}
    assert {each["index"]: each["score"] for each in answer["data"]} == pytest.approx(expected, abs=1e-6)
    assert [each["index"] for each in answer["data"]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("/v1/rerank", RERANK | {"documents": []}, 400, "documents"),
        ("/v1/rerank", RERANK | {"documents": ["a", {"text": ""}]}, 400, "documents.1.text"),
        ("/v2/rerank", RERANK | {"top_n": 0}, 400, "top_n"),
        ("/v2/rerank", RERANK | {"query": ""}, 400, "query"),
        ("/v2/rerank", RERANK | {"model": "nobody"}, 404, None),
        ("/v2/rerank", RERANK | {"model": "sluice-demo"}, 400, "model"),
        ("/v2/rerank", RERANK | {"truncation": False, "documents": ["word " * 400]}, 400, "documents.0"),
        ("/v1/score", {"model": ENCODER, "text_1": ["a", "b"], "text_2": ["c"]}, 400, "text_1"),
        ("/score", {"model": ENCODER, "text_1": "a", "text_2": "word " * 400}, 400, "text_2"),
        ("/v1/rerank/x", {}, 404, None),
    ],
)
def test_rerank_errors_have_the_fields_of_each_client(
    stack: Stack, path: str, body: dict[str, Any], status: int, field: str | None
) -> None:
    """Each client finds the error's text in its own field, with the client's field name."""
    answer = post(stack, path, body)
    assert answer.status_code == status
    error = answer.json()
    assert error["message"] == error["detail"] == error["error"]["message"]
    assert (error["error"]["param"], error["id"]) == (field, answer.headers["x-request-id"])


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, Path, Any]]:
    """A product with a cross-encoder and a judging model; yields also the first's folder and model."""
    cross, judge = tmp_path_factory.mktemp("cross"), tmp_path_factory.mktemp("judge")
    model = save_cross_encoder("bert", cross)
    save_judge(judge)
    models = [
        {"name": "cross", "path": str(cross)},
        {"name": "judge", "path": str(judge), "rank": {"prompt": TEMPLATE, "instruction": "w10"}},
    ]
    settings = {"SLUICE_SERVICE_MODELS": json.dumps(models), "SLUICE_SERVICE_DEVICE": "cpu"}
    with started(environment=settings) as stack:
        yield stack, cross, model


def test_cross_encoder_is_served(others: tuple[Stack, Path, Any]) -> None:
    """Scores over REST and gRPC equal transformers within 1e-4, and other tasks are rejected by name."""
    stack, folder, model = others
    query, documents = PAIRS[0][0], [second for _, second in PAIRS]
    expected = reference_scores(folder, model, [(query, each) for each in documents])
    body: dict[str, Any] = {"model": "cross", "query": query, "documents": documents}
    raw = post(stack, "/v1/rerank", body | {"raw_scores": True}).json()["results"]
    assert {each["index"]: each["relevance_score"] for each in raw} == pytest.approx(
        dict(enumerate(expected)), abs=1e-4
    )
    usual = post(stack, "/v1/rerank", body).json()["results"]
    assert {each["index"]: each["relevance_score"] for each in usual} == pytest.approx(
        {index: float(1 / (1 + np.exp(-score))) for index, score in enumerate(expected)}, abs=1e-4
    )
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        answer = rank_pb2_grpc.RankServiceStub(channel).Rank(rank_pb2.RankRequest(**body, top_n=2), timeout=GUARD_S)
    assert [each.index for each in answer.results] == [each["index"] for each in usual[:2]]
    endpoints = httpx.get(f"{stack.url}/api/2.0/serving-endpoints", timeout=GUARD_S).json()["endpoints"]
    assert {each["name"]: each["task"] for each in endpoints}["cross"] == "llm/v1/rerank"
    for path, ranked in (
        ("/v1/embeddings", {"model": "cross", "input": "a"}),
        ("/v1/completions", {"model": "cross", "prompt": "a"}),
    ):
        response = post(stack, path, ranked)
        assert (response.status_code, response.json()["error"]["param"]) == (400, "model")
        assert "ranks texts" in response.json()["error"]["message"]


def test_yes_or_no_judging_model_is_served(others: tuple[Stack, Path, Any]) -> None:
    """Its scores are from 0 to 1, its tokens are counted, and it also completes prompts."""
    stack, _, _ = others
    body = {"model": "judge", "query": QUERY, "documents": JUDGED, "top_n": 3}
    answer = post(stack, "/v2/rerank", body).json()
    scores = [each["relevance_score"] for each in answer["results"]]
    assert len(scores) == 3
    assert 1 >= scores[0] > scores[1] >= scores[2] >= 0
    assert answer["usage"]["prompt_tokens"] > 8 * len(JUDGED)
    instructed = post(stack, "/v2/rerank", body | {"instruction": "w12 w13"}).json()["results"]
    assert instructed != answer["results"]
    assert post(stack, "/v1/completions", {"model": "judge", "prompt": "w30", "max_tokens": 2}).status_code == 200

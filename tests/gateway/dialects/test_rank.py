"""Reranking and scoring: the contract's requests, errors and answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from sluice.v1 import rank_pb2

from gateway.dialects.rank.error import RankErrors
from gateway.dialects.rank.rerank import RerankTranslator, ScoreTranslator
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

RERANK = {"model": "m", "query": "q", "documents": ["a", {"text": "b", "title": "t"}]}
SCORE = {"model": "m", "text_1": "q", "text_2": ["a", "b"]}
CUT = {"errorBehavior": "ERROR_BEHAVIOR_TRUNCATE"}


def rerank(**fields: Any) -> ParsedRequest[rank_pb2.RankRequest]:
    return RerankTranslator().parse(HttpRequest(json.dumps(RERANK | fields).encode()))


def score(**fields: Any) -> ParsedRequest[rank_pb2.ScoreRequest]:
    return ScoreTranslator().parse(HttpRequest(json.dumps(SCORE | fields).encode()))


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, {"serving": CUT}),
        ({"top_n": 1, "max_tokens_per_doc": 5}, {"topN": 1, "options": {"maxTokensPerDocument": 5}, "serving": CUT}),
        ({"truncation": False}, {}),
        ({"truncation": False, "raw_scores": True}, {"options": {"rawScores": True}}),
        ({"truncation": False, "use_activation": False}, {"options": {"rawScores": True}}),
        ({"truncation": False, "use_activation": True}, {}),
        (
            {"truncation": False, "instruction": "i", "priority": 3},
            {"options": {"instruction": "i"}, "serving": {"priority": 3}},
        ),
        ({"truncation": False, "rank_fields": ["text"], "return_embeddings": False, "user": None}, {}),
    ],
)
def test_rerank_request_becomes_the_contracts(fields: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Long documents are truncated by default, as Cohere and Jina document it."""
    expected = ParseDict({"model": "m", "query": "q", "documents": ["a", "b"], **wanted}, rank_pb2.RankRequest())
    request = rerank(**fields).request
    request.options.SetInParent()
    request.serving.SetInParent()
    expected.options.SetInParent()
    expected.serving.SetInParent()
    assert request == expected


@pytest.mark.parametrize(
    ("fields", "queries", "documents", "truncates"),
    [
        ({}, ["q"], ["a", "b"], False),
        ({"text_2": "a"}, ["q"], ["a"], False),
        ({"text_1": ["q", "r"]}, ["q", "r"], ["a", "b"], False),
        ({"truncate_prompt_tokens": -1}, ["q"], ["a", "b"], True),
        ({"truncation": True}, ["q"], ["a", "b"], True),
    ],
)
def test_score_request_becomes_the_contracts(
    fields: dict[str, Any], queries: list[str], documents: list[str], *, truncates: bool
) -> None:
    """A score request has one text for all pairs, or one for each."""
    request = score(**fields).request
    assert (list(request.queries), list(request.documents), bool(request.serving.error_behavior)) == (
        queries,
        documents,
        truncates,
    )


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"documents": "a"}, "documents", Reason.INVALID_TYPE),
        ({"documents": [{"title": "a"}]}, "documents.0.text", Reason.MISSING_FIELD),
        ({"documents": ["a"] * 2049}, "documents", Reason.INVALID_FIELD),
        ({"top_n": -1}, "top_n", Reason.INVALID_FIELD),
        ({"top_n": "1"}, "top_n", Reason.INVALID_TYPE),
        ({"max_tokens_per_doc": 2**40}, "max_tokens_per_doc", Reason.INVALID_FIELD),
        ({"rank_fields": ["text", "title"]}, "rank_fields", Reason.UNSUPPORTED_FIELD),
        ({"return_embeddings": True}, "return_embeddings", Reason.UNSUPPORTED_FIELD),
        ({"truncate_prompt_tokens": 5}, "truncate_prompt_tokens", Reason.INVALID_FIELD),
        ({"query": None}, "query", Reason.INVALID_TYPE),
        ({"texts": []}, "texts", Reason.UNKNOWN_FIELD),
    ],
)
def test_bad_bodies_are_rejected_by_field(fields: dict[str, Any], field: str, reason: Reason) -> None:
    """Invalid bodies are rejected with the caller's name of the field."""
    with pytest.raises(Failure) as caught:
        rerank(**fields)
    assert (caught.value.field, caught.value.reason, caught.value.status) == (field, reason, 400)


def test_fields_have_the_callers_names() -> None:
    """The contract's field names are mapped to the caller's."""
    names = {
        name: rerank().caller_name(name) for name in ("documents[0]", "documents[1]", "documents", "serving.priority")
    }
    assert names == {
        "documents[0]": "documents.0",
        "documents[1]": "documents.1.text",
        "documents": "documents",
        "serving.priority": "priority",
    }
    assert rerank().caller_name("options.max_tokens_per_document") == "max_tokens_per_doc"
    parsed = score(text_1=["q", "r"])
    assert [parsed.caller_name(name) for name in ("queries[1]", "documents[0]", "queries")] == [
        "text_1.1",
        "text_2.0",
        "text_1",
    ]
    assert score().caller_name("queries[0]") == "text_1"


def test_error_body_has_cohere_jina_and_vllm_fields() -> None:
    """An error has Cohere's `message`, Jina's `detail` and vLLM's `error`."""
    failure = Failure.of_field("query", "must not be empty")
    failure.request_id = "r"
    rejection = RankErrors().error_response(failure)
    text = "query: must not be empty"
    assert (rejection.status, json.loads(rejection.body)) == (
        400,
        {
            "id": "r",
            "message": text,
            "detail": text,
            "error": {"message": text, "type": "BadRequestError", "param": "query", "code": 400},
        },
    )

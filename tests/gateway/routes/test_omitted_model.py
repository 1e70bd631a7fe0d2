"""Requests that name no model: the only model of their task answers, on every path."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest

from tests.gateway import golden_answers
from tests.gateway.conftest import Gateway
from tests.gateway.golden_service import Answers, GoldenService, golden_service

service = pytest.fixture(golden_service)

_Body = Mapping[str, Any]
MESSAGES: Final[_Body] = {"messages": [{"role": "user", "content": "hi"}]}
PROMPT: Final[_Body] = {"prompt": "a"}
INPUT: Final[_Body] = {"input": "a"}
RERANK: Final[_Body] = {"query": "a", "documents": ["b", "c"]}
PAIRS: Final[_Body] = {"text_1": "a", "text_2": "b"}
OPENAI: Final = ("/v1", "/openai/v1", "/openai")


class Call(NamedTuple):
    """A path, its body without a model, the service's answers, and the model that serves the task."""

    path: str
    body: _Body
    answers: Answers
    model: str


CALLS: Final[Sequence[Call]] = [
    *(Call(f"{base}/chat/completions", MESSAGES, golden_answers.CHATS["text"], "m") for base in OPENAI),
    *(Call(f"{base}/completions", PROMPT, golden_answers.COMPLETIONS["text"], "m") for base in OPENAI),
    *(Call(f"{base}/embeddings", INPUT, golden_answers.VECTORS, "e") for base in OPENAI),
    *(Call(f"{base}/responses", INPUT, golden_answers.response("text"), "m") for base in OPENAI),
    Call("/v1/responses/input_tokens", INPUT, golden_answers.COUNT, "m"),
    Call("/serving-endpoints/chat/completions", MESSAGES, golden_answers.CHATS["text"], "m"),
    Call("/serving-endpoints/completions", PROMPT, golden_answers.COMPLETIONS["text"], "m"),
    Call("/serving-endpoints/embeddings", INPUT, golden_answers.VECTORS, "e"),
    Call("/serving-endpoints/responses", INPUT, golden_answers.response("text"), "m"),
    Call("/chat/completions", MESSAGES, golden_answers.CHATS["text"], "m"),
    Call("/embeddings", INPUT, golden_answers.VECTORS, "e"),
    Call("/v1/messages", {**MESSAGES, "max_tokens": 9}, golden_answers.CHATS["text"], "m"),
    Call("/v2/chat", MESSAGES, golden_answers.CHATS["text"], "m"),
    Call("/v2/embed", {"texts": ["a"]}, golden_answers.VECTORS, "e"),
    Call("/v1/messages/count_tokens", MESSAGES, golden_answers.COUNT, "m"),
    *(Call(path, RERANK, golden_answers.RANKS, "e") for path in ("/v1/rerank", "/v2/rerank", "/rerank")),
    *(Call(path, PAIRS, golden_answers.RANKS, "e") for path in ("/v1/score", "/score")),
    Call("/tokenize", PROMPT, golden_answers.TOKENS, "m"),
    Call("/tokenize", MESSAGES, golden_answers.TOKENS, "m"),
    Call("/detokenize", {"tokens": [5]}, golden_answers.TOKENS, "m"),
]
BY_PATH: Final = pytest.mark.parametrize("call", CALLS, ids=[f"{call.path}-{min(call.body)}" for call in CALLS])


def models_of(service: GoldenService) -> list[str]:
    """Return the models in the requests of the service, except in those that list what it serves."""
    notes = [note for note in service.notes if note.startswith(">>> ") and "/List" not in note]
    return [line.strip() for note in notes for line in note.splitlines() if line.strip().startswith("model: ")]


@BY_PATH
async def test_only_model_of_the_task_answers(gateway: Gateway, service: GoldenService, call: Call) -> None:
    """One chat model and one embedding model need no names."""
    service.answers = {**call.answers, **golden_answers.SERVED}
    for omitted in (call.body, {**call.body, "model": None}):
        service.notes.clear()
        answer = await gateway.http.post(call.path, json=omitted)
        assert (answer.status_code, models_of(service)) == (200, [f'model: "{call.model}"'])


@BY_PATH
async def test_request_with_a_model_name_needs_no_model_list(
    gateway: Gateway, service: GoldenService, call: Call
) -> None:
    """A request that names its model needs no list of models, except in Azure's style, which ignores unknown names."""
    service.answers = {**call.answers, **golden_answers.SERVED}
    answer = await gateway.http.post(call.path, json={**call.body, "model": call.model})
    assert (answer.status_code, models_of(service)) == (200, [f'model: "{call.model}"'])
    is_azure = call.path in {"/chat/completions", "/embeddings"}
    assert any("ListEndpoints" in note for note in service.notes) == is_azure


@BY_PATH
async def test_omitted_name_among_several_models_is_rejected(
    gateway: Gateway, service: GoldenService, call: Call
) -> None:
    """With two models of the task, the error names the field, and nothing runs."""
    served: Any = golden_answers.SERVED["ListEndpoints"][0]
    doubled = type(served)()
    doubled.CopyFrom(served)
    for each in served.endpoints:
        doubled.endpoints.add().CopyFrom(each)
        doubled.endpoints[-1].name += "2"
    service.answers = {**call.answers, "ListEndpoints": [doubled]}
    answer = await gateway.http.post(call.path, json=call.body)
    assert answer.status_code == 400
    assert "model: required when several models are served" in json.dumps(answer.json())
    assert models_of(service) == []


async def test_task_without_a_model_is_404(gateway: Gateway, service: GoldenService) -> None:
    """Without a model of the task the answer is 404, as for an unknown model."""
    served: Any = golden_answers.SERVED["ListEndpoints"][0]
    embedder = type(served)(endpoints=[served.endpoints[1]])
    service.answers = {**golden_answers.CHATS["text"], "ListEndpoints": [embedder]}
    answer = await gateway.http.post("/v1/chat/completions", json=MESSAGES)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (404, "unsupported_value", "model")


async def test_streamed_request_without_a_name_uses_the_only_model(gateway: Gateway, service: GoldenService) -> None:
    """A streamed request has the same model as one that is answered whole."""
    service.answers = {**golden_answers.CHATS["text"], **golden_answers.SERVED}
    answer = await gateway.http.post("/v1/chat/completions", json={**MESSAGES, "stream": True})
    assert answer.text.endswith("data: [DONE]\n\n")
    assert models_of(service) == ['model: "m"']

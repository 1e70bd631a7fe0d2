"""Requests that name no model: the only model of their task answers, on every path."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest

from tests.gateway import golden_answers as said
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
    *(Call(f"{base}/chat/completions", MESSAGES, said.CHATS["text"], "m") for base in OPENAI),
    *(Call(f"{base}/completions", PROMPT, said.COMPLETIONS["text"], "m") for base in OPENAI),
    *(Call(f"{base}/embeddings", INPUT, said.VECTORS, "e") for base in OPENAI),
    *(Call(f"{base}/responses", INPUT, said.response("text"), "m") for base in OPENAI),
    Call("/v1/responses/input_tokens", INPUT, said.COUNT, "m"),
    Call("/serving-endpoints/chat/completions", MESSAGES, said.CHATS["text"], "m"),
    Call("/serving-endpoints/completions", PROMPT, said.COMPLETIONS["text"], "m"),
    Call("/serving-endpoints/embeddings", INPUT, said.VECTORS, "e"),
    Call("/serving-endpoints/responses", INPUT, said.response("text"), "m"),
    Call("/chat/completions", MESSAGES, said.CHATS["text"], "m"),
    Call("/embeddings", INPUT, said.VECTORS, "e"),
    Call("/v1/messages", {**MESSAGES, "max_tokens": 9}, said.CHATS["text"], "m"),
    Call("/v2/chat", MESSAGES, said.CHATS["text"], "m"),
    Call("/v2/embed", {"texts": ["a"]}, said.VECTORS, "e"),
    Call("/v1/messages/count_tokens", MESSAGES, said.COUNT, "m"),
    *(Call(path, RERANK, said.RANKS, "e") for path in ("/v1/rerank", "/v2/rerank", "/rerank")),
    *(Call(path, PAIRS, said.RANKS, "e") for path in ("/v1/score", "/score")),
    Call("/tokenize", PROMPT, said.TOKENS, "m"),
    Call("/tokenize", MESSAGES, said.TOKENS, "m"),
    Call("/detokenize", {"tokens": [5]}, said.TOKENS, "m"),
]
BY_PATH: Final = pytest.mark.parametrize("call", CALLS, ids=[f"{call.path}-{min(call.body)}" for call in CALLS])


def models_of(service: GoldenService) -> list[str]:
    """Return the models in the requests of the service, except in those that list what it serves."""
    notes = [note for note in service.notes if note.startswith(">>> ") and "/List" not in note]
    return [line.strip() for note in notes for line in note.splitlines() if line.strip().startswith("model: ")]


@BY_PATH
async def test_only_model_of_the_task_answers(gateway: Gateway, service: GoldenService, call: Call) -> None:
    """One chat model and one embedding model need no names."""
    service.answers = {**call.answers, **said.SERVED}
    for omitted in (call.body, {**call.body, "model": None}):
        service.notes.clear()
        answer = await gateway.http.post(call.path, json=omitted)
        assert (answer.status_code, models_of(service)) == (200, [f'model: "{call.model}"'])


@BY_PATH
async def test_request_with_a_model_name_needs_no_model_list(
    gateway: Gateway, service: GoldenService, call: Call
) -> None:
    """A request that names its model needs no list of models, except in Azure's style, which ignores unknown names."""
    service.answers = {**call.answers, **said.SERVED}
    answer = await gateway.http.post(call.path, json={**call.body, "model": call.model})
    assert (answer.status_code, models_of(service)) == (200, [f'model: "{call.model}"'])
    is_azure = call.path in {"/chat/completions", "/embeddings"}
    assert any("ListEndpoints" in note for note in service.notes) == is_azure


@BY_PATH
async def test_omitted_name_among_several_models_is_rejected(
    gateway: Gateway, service: GoldenService, call: Call
) -> None:
    """With two models of the task, the error names the field, and nothing runs."""
    served: Any = said.SERVED["ListEndpoints"][0]
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
    served: Any = said.SERVED["ListEndpoints"][0]
    embedder = type(served)(endpoints=[served.endpoints[1]])
    service.answers = {**said.CHATS["text"], "ListEndpoints": [embedder]}
    answer = await gateway.http.post("/v1/chat/completions", json=MESSAGES)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (404, "unsupported_value", "model")


async def test_streamed_request_without_a_name_uses_the_only_model(gateway: Gateway, service: GoldenService) -> None:
    """A streamed request has the same model as one that is answered whole."""
    service.answers = {**said.CHATS["text"], **said.SERVED}
    answer = await gateway.http.post("/v1/chat/completions", json={**MESSAGES, "stream": True})
    assert answer.text.endswith("data: [DONE]\n\n")
    assert models_of(service) == ['model: "m"']

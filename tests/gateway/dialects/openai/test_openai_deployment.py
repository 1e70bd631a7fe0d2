"""The OpenAI style under deployments: the path names the model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.openai.chat import OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionTranslator
from gateway.dialects.openai.deployment import (
    DeploymentChatTranslator,
    DeploymentCompletionTranslator,
    DeploymentEmbeddingTranslator,
)
from gateway.dialects.openai.embedding import OpenAIEmbeddingTranslator
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest, Translator
from tests.gateway.conftest import Gateway

CHAT = {"messages": [{"role": "user", "content": "hi"}], "stream": True, "top_k": 3}
KINDS = [
    (DeploymentChatTranslator, OpenAITranslator, CHAT),
    (DeploymentCompletionTranslator, OpenAICompletionTranslator, {"prompt": ["a", "b"]}),
    (DeploymentEmbeddingTranslator, OpenAIEmbeddingTranslator, {"input": ["a"], "encoding_format": "base64"}),
]


@pytest.mark.parametrize(("kind", "plain", "body"), KINDS)
@pytest.mark.parametrize("model", [{}, {"model": "another"}, {"model": None}], ids=["without", "another", "null"])
def test_model_in_the_path_replaces_the_bodys_model(
    kind: type[Translator], plain: type[Translator], body: dict[str, Any], model: dict[str, str | None]
) -> None:
    """The request is that of `/v1` for the path's model, whatever model the body names."""
    call = kind().parse(HttpRequest(json.dumps(body | model).encode(), path={"name": "org/m"}))
    same = plain().parse(HttpRequest(json.dumps(body | {"model": "org/m"}).encode()))
    assert (call.request, call.stream) == (same.request, same.stream)


@pytest.mark.parametrize(("kind", "body"), [(kind, body) for kind, _, body in KINDS])
def test_unknown_field_is_rejected(kind: type[Translator], body: dict[str, Any]) -> None:
    """The bodies are as strict as those of `/v1`."""
    with pytest.raises(Failure) as caught:
        kind().parse(HttpRequest(json.dumps(body | {"colour": 1}).encode(), path={"name": "m"}))
    assert caught.value.field == "colour"


@pytest.mark.parametrize(("kind", "body"), [(kind, body) for kind, _, body in KINDS])
def test_too_long_model_name_in_the_body_is_rejected(kind: type[Translator], body: dict[str, Any]) -> None:
    """A name above the contract's length is rejected although the path's replaces it; an empty one is ignored."""
    with pytest.raises(Failure, match="1 to 256 characters") as caught:
        kind().parse(HttpRequest(json.dumps(body | {"model": "m" * 257}).encode(), path={"name": "m"}))
    assert caught.value.field == "model"
    call: ParsedRequest[Any] = kind().parse(HttpRequest(json.dumps(body | {"model": ""}).encode(), path={"name": "m"}))
    assert call.request.model == "m"


async def test_paths(gateway: Gateway) -> None:
    """A deployment's name may contain slashes; errors of unknown routes have OpenAI's format."""
    answer = await gateway.http.post(
        "/openai/deployments/org/m/chat/completions?api-version=2024-10-21", json=CHAT | {"stream": False}
    )
    assert answer.status_code == 200
    assert gateway.service.requests[0].model == "org/m"
    body = CHAT | {"stream": False, "model": "a"}
    answer = await gateway.http.post("/openai/v1/chat/completions", json=body)
    assert answer.status_code == 200
    for path in ("/openai/models?api-version=2024-10-21", "/openai/v1/models"):
        assert [each["id"] for each in (await gateway.http.get(path)).json()["data"]] == ["a", "org/b"]
    for path in ("/openai/models/org/b", "/openai/v1/models/org/b"):
        assert (await gateway.http.get(path)).json()["id"] == "org/b"
    missing = await gateway.http.post("/openai/deployments/m", json={})
    assert (missing.status_code, missing.json()["error"]["type"]) == (404, "invalid_request_error")

"""A request for a task that its model does not serve: in every dialect, the error names the field `model`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx
import pytest

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

EMBEDDER: Final = "all-minilm-l6-v2"
GENERATOR: Final = "sluice-demo"
MESSAGES: Final = [{"role": "user", "content": "hi"}]
CHAT: Final[Mapping[str, Any]] = {"model": EMBEDDER, "messages": MESSAGES}
RESPONSE: Final[Mapping[str, Any]] = {"model": EMBEDDER, "input": "hi"}
CALLS: Final[list[tuple[str, Mapping[str, Any], int]]] = [
    ("/v1/chat/completions", CHAT, 400),
    ("/v1/completions", {"model": EMBEDDER, "prompt": "hi"}, 400),
    ("/v1/responses", RESPONSE, 400),
    ("/v1/responses/input_tokens", RESPONSE, 400),
    ("/v1/messages", {**CHAT, "max_tokens": 4}, 400),
    ("/v1/messages/count_tokens", CHAT, 400),
    (f"/openai/deployments/{EMBEDDER}/chat/completions", {"messages": MESSAGES}, 400),
    ("/v2/chat", CHAT, 400),
    ("/v2/embed", {"model": GENERATOR, "texts": ["hi"]}, 400),
    ("/chat/completions", CHAT, 404),  # as Azure documents it
    ("/serving-endpoints/chat/completions", CHAT, 400),
    (f"/serving-endpoints/{EMBEDDER}/invocations", {"messages": MESSAGES}, 400),
    (f"/serving-endpoints/{EMBEDDER}/invocations", {"prompt": "hi"}, 400),
    (f"/v2/models/{EMBEDDER}/generate", {"text_input": "hi"}, 400),
    (f"/v2/models/{EMBEDDER}/generate_stream", {"text_input": "hi"}, 400),
    ("/tokenize", CHAT, 400),
    ("/v1/embeddings", {"model": GENERATOR, "input": "hi"}, 400),
    ("/v1/rerank", {"model": GENERATOR, "query": "hi", "documents": ["hi"]}, 400),
]


@pytest.mark.parametrize(("path", "body", "status"), CALLS, ids=[f"{path}-{max(body)}" for path, body, _ in CALLS])
def test_error_names_the_model(stack: Stack, path: str, body: Mapping[str, Any], status: int) -> None:
    """The text says what the model does instead, and programs get the field where the dialect has one for it."""
    answer = httpx.post(f"{stack.url}{path}", json=body, timeout=GUARD_S)
    model, does = (EMBEDDER, "makes vectors") if EMBEDDER in answer.text else (GENERATOR, "generates text")
    assert answer.status_code == status
    assert f"model: the model '{model}' {does}" in answer.text
    error = answer.json().get("error")
    assert not isinstance(error, dict) or error.get("param", "model") == "model"

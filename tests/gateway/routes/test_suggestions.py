"""Errors about unknown names suggest the closest known one: fields, values, roles and paths, in every dialect."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.gateway.conftest import Gateway

CHAT: Final[dict[str, Any]] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def with_role(role: str) -> dict[str, Any]:
    """Return a chat whose only message has this role."""
    return {"model": "m", "max_tokens": 9, "messages": [{"role": role, "content": "hi"}]}


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/v1/chat/completions", CHAT | {"temprature": 1}, "temprature: unknown field; did you mean temperature?"),
        ("/v1/chat/completions", CHAT | {"max_new_tokens": 1}, "did you mean max_tokens?"),
        ("/v1/responses", {"input": "a", "max_tokens": 1}, "did you mean max_output_tokens?"),
        ("/v1/messages", CHAT | {"max_token": 1}, "max_token: unknown field; did you mean max_tokens?"),
        ("/chat/completions", CHAT | {"top_pp": 1}, "top_pp: unknown field; did you mean top_p?"),
        ("/serving-endpoints/m/invocations", CHAT | {"stopp": 1}, "stopp: unknown field; did you mean stop?"),
        (
            "/v2/models/m/generate",
            {"text_input": "a", "parameters": {"max_new_token": 1}},
            "parameters.max_new_token: unknown field; did you mean max_new_tokens?",
        ),
        ("/v1/rerank", {"query": "a", "documents": [], "topn": 1}, "topn: unknown field; did you mean top_n?"),
        (
            "/v1/chat/completions",
            CHAT | {"tools": [{"type": "function", "function": {"nam": "f"}}]},
            "tools.0.function.nam: unknown field; did you mean name?",
        ),
        (
            "/v1/chat/completions",
            CHAT | {"response_format": {"type": "json_shema"}},
            "response_format.type: 'json_shema' is not supported; did you mean json_schema?",
        ),
        ("/v1/chat/completions", CHAT | {"tool_choice": "requierd"}, "did you mean required?"),
    ],
)
async def test_fields_and_values(gateway: Gateway, path: str, body: dict[str, Any], text: str) -> None:
    """An unknown field or value is answered with the closest one that the path accepts there."""
    answer = await gateway.http.post(path, json=body)
    assert answer.status_code in {400, 422}
    assert text in json.dumps(answer.json())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/chat/completions"])
@pytest.mark.parametrize(
    ("role", "meant"), [("usr", "user"), ("asistant", "assistant"), ("human", "user"), ("model", "assistant")]
)
async def test_roles(gateway: Gateway, path: str, role: str, meant: str) -> None:
    """A misspelt role, and another API's name of a role, are answered with the intended role."""
    answer = await gateway.http.post(path, json=with_role(role))
    assert answer.status_code in {400, 422}
    assert f"messages.0.role: {role!r} is not supported; did you mean {meant}?" in json.dumps(answer.json())


async def test_no_suggestion_without_a_similar_name(gateway: Gateway) -> None:
    """Without a similar name the error suggests nothing."""
    for body in (CHAT | {"wings": 2}, with_role("king")):
        assert "did you mean" not in (await gateway.http.post("/v1/chat/completions", json=body)).text
    assert "did you mean" not in (await gateway.http.post("/nowhere/at/all", json={})).text
    assert "did you mean" not in (await gateway.http.post("/" + "v1/" * 2000, json={})).text


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("POST", "/v1/v1/chat/completions", "/v1/chat/completions"),
        ("GET", "/v1/v1/models", "/v1/models"),
        ("POST", "/api/v1/embeddings", "/v1/embeddings"),
        ("POST", "/v1/v1/messages", "/v1/messages"),
        ("POST", "/v1/serving-endpoints/m/invocations", "/serving-endpoints/m/invocations"),
        ("POST", "/responses", "/v1/responses"),
        ("POST", "/messages", "/v1/messages"),
        ("POST", "/completions", "/v1/completions"),
        ("POST", "/v1/chat/completion", "/v1/chat/completions"),
        ("POST", "/v1/embedings", "/v1/embeddings"),
        ("POST", "/chat/completion", "/chat/completions"),
        ("POST", "/api/chats", "/api/chat"),
        ("POST", "/generate", "/v1/completions"),
        ("POST", "/completion", "/v1/completions"),
        ("GET", "/healtz", "/healthz"),
    ],
)
async def test_paths(gateway: Gateway, method: str, path: str, meant: str) -> None:
    """A repeated or missing prefix, a misspelt path, and another server's path are answered with the intended path."""
    answer = await gateway.http.request(method, path)
    assert answer.status_code == 404
    assert f"{method} {path}: not found; did you mean {meant}?" in answer.text


async def test_path_that_the_method_cannot_use_is_not_suggested(gateway: Gateway) -> None:
    """A path that the method can't use is not suggested."""
    answer = await gateway.http.get("/v1/v1/chat/completions")
    assert answer.status_code == 404
    assert "did you mean /v1/chat/completions" not in answer.text

"""Paths with a trailing slash."""

from __future__ import annotations

import pytest

from tests.gateway.conftest import Gateway, chat_body


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/org/b", "/healthz", "/openai/v1/models"])
async def test_trailing_slash_is_ignored(gateway: Gateway, path: str) -> None:
    """The answer is the same as without the slash, not a redirection."""
    plain, slashed = await gateway.http.get(path), await gateway.http.get(f"{path}/?a=b")
    assert (slashed.status_code, slashed.json()) == (200, plain.json())


async def test_post_with_a_trailing_slash_keeps_its_body(gateway: Gateway) -> None:
    """A POST keeps its body."""
    answer = await gateway.http.post("/v1/chat/completions/", json=chat_body())
    assert answer.status_code == 200
    (request,) = gateway.service.requests
    assert request.model == chat_body()["model"]


async def test_double_slash_is_not_ignored(gateway: Gateway) -> None:
    """Two slashes are not accepted, and `/docs/` differs from `/docs`, because both have relative links."""
    assert (await gateway.http.get("/v1/chat//")).status_code == 404
    there, other = [(await gateway.http.get(path, follow_redirects=False)).text for path in ("/docs", "/docs/")]
    assert there != other

"""Repeated calls in the other form, streamed or whole, by OpenAI's and Anthropic's formats through Envoy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.clients.extension_requests import MODEL, QUESTION
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S


@pytest.fixture(scope="module")
def openai_client(stack: Stack) -> Iterator[Any]:  # its overloads know only OpenAI's models
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key="unused", timeout=GUARD_S) as client:
        yield client


def of(key: str) -> dict[str, Any]:
    """Return a chat with an idempotency key, without a seed."""
    headers = {"idempotency-key": key}
    return {"model": MODEL, "max_tokens": 12, "messages": QUESTION, "extra_headers": headers}


@pytest.mark.parametrize("stream", [False, True])
def test_chat_is_repeated_in_the_other_form(openai_client: Any, *, stream: bool) -> None:
    """The answer has the same id and text; another request under the key is rejected in both forms."""
    call = of(f"chat-{stream}")

    def answer(*, stream: bool, **fields: Any) -> tuple[str, str]:
        found = openai_client.chat.completions.create(**call | fields, stream=stream)
        if not stream:
            return found.id, found.choices[0].message.content
        chunks = list(found)
        return chunks[0].id, "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    first = answer(stream=stream)
    assert answer(stream=not stream) == first
    assert answer(stream=True, stream_options={"include_usage": True, "output_interval_ms": 0}) == first
    for other in (False, True):
        with pytest.raises(openai.BadRequestError, match="idempotency-key: is the id of another request"):
            answer(stream=other, max_tokens=5)


def test_message_is_repeated_in_the_other_form(stack: Stack) -> None:
    """Anthropic's stream has the id of the whole message."""
    body = {"model": MODEL, "max_tokens": 12, "messages": QUESTION}
    headers = {"idempotency-key": "message", "anthropic-version": "2023-06-01"}

    def post(*, stream: bool) -> httpx.Response:
        url = f"{stack.url}/v1/messages"
        return httpx.post(url, json=body | {"stream": stream}, headers=headers, timeout=GUARD_S).raise_for_status()

    whole = post(stream=False).json()
    assert f'"id":"{whole["id"]}"' in post(stream=True).text

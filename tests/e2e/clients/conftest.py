"""Fixtures of this folder: OpenAI's own client, and its requests with fields of other servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.e2e.clients.extension_requests import MODEL, QUESTION
from tests.e2e.stack import Stack


@pytest.fixture(scope="module")
def openai_client(stack: Stack) -> Iterator[Any]:  # its overloads know only OpenAI's models
    """An OpenAI client of the public listener."""
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key="unused", max_retries=0) as openai_client:
        yield openai_client


@pytest.fixture(params=["chat", "completion"])
def generate(openai_client: Any, request: pytest.FixtureRequest) -> Any:
    """Return a function that requests a chat, or a completion, with fields that the client does not know."""
    fields: dict[str, Any] = {"model": MODEL, "temperature": 0, "max_tokens": 60}

    def chat(**extra: Any) -> Any:
        known = {name: extra.pop(name) for name in ("stream", "stream_options") if name in extra}
        messages = extra.pop("messages", QUESTION)
        return openai_client.chat.completions.create(**fields, messages=messages, **known, extra_body=extra)

    def complete(**extra: Any) -> Any:
        known = {name: extra.pop(name) for name in ("stream", "stream_options") if name in extra}
        return openai_client.completions.create(**fields, prompt="One, two,", **known, extra_body=extra)

    return chat if request.param == "chat" else complete

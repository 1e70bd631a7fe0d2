"""The official OpenAI client, unchanged but for its base URL, through Envoy."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.e2e.stack import Stack

MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture
def client(stack: Stack) -> Iterator[Any]:  # its overloads know OpenAI's own models only
    """A client of the front door."""
    with openai.OpenAI(base_url=f"{stack.door}/v1", api_key="unused", max_retries=0) as client:
        yield client


def test_client_streams(client: Any) -> None:
    """The streamed pieces fold to the whole answer, and the usage comes in the last chunk."""
    whole = client.chat.completions.create(model="sluice-demo", messages=MESSAGES, temperature=0)
    chunks = list(
        client.chat.completions.create(
            model="sluice-demo", messages=MESSAGES, temperature=0, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens > 0
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens > 0


def test_client_lists_models(client: Any) -> None:
    """Models are listed and retrieved by name."""
    assert [m.id for m in client.models.list()] == ["sluice-demo"]
    assert client.models.retrieve("sluice-demo").id == "sluice-demo"


@pytest.mark.parametrize(
    ("change", "error", "param", "words"),
    [
        ({"temperature": 3}, openai.BadRequestError, "temperature", "2"),
        ({"messages": []}, openai.BadRequestError, "messages", "at least 1"),
        ({"max_tokens": 0}, openai.BadRequestError, "max_tokens", "1"),
        ({"model": "nobody"}, openai.NotFoundError, "model", "nobody"),
        ({"extra_body": {"colour": 1}}, openai.BadRequestError, "colour", "colour"),
        ({"messages": [{"role": "user", "content": "word " * 4000}]}, openai.BadRequestError, "messages", "2047"),
    ],
)
def test_client_errors(
    client: Any, change: dict[str, object], error: type[openai.APIStatusError], param: str, words: str
) -> None:
    """A bad value is the client's typed error, names the field and the limit, and the next request works."""
    with pytest.raises(error) as caught:
        client.chat.completions.create(**{"model": "sluice-demo", "messages": MESSAGES, **change})
    body: Any = caught.value.body
    assert body["param"] == param
    assert words in body["message"]
    client.chat.completions.create(model="sluice-demo", messages=MESSAGES, max_tokens=1)

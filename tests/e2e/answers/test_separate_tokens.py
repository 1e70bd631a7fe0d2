"""A caller can ask for an event for each token of a stream, in every dialect and over gRPC."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc
import httpx
import pytest
from sluice.v1 import completion_pb2, completion_pb2_grpc, prompt_pb2

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

MODEL: Final = "sluice-demo"
NUM_TOKENS: Final = 24
PROMPT: Final = "The capital of France is"
MESSAGES: Final = [{"role": "user", "content": "Tell me a story about a cat."}]
INTERVAL: Final[Mapping[str, Any]] = {"stream": True, "stream_options": {"output_interval_ms": 0}}
SAMPLING: Final[Mapping[str, Any]] = {"temperature": 0, "max_tokens": NUM_TOKENS}
CHAT: Final[Mapping[str, Any]] = {"model": MODEL, "messages": MESSAGES, **SAMPLING}
PASS: Final = {"extra-parameters": "pass-through"}


def of_chat(event: Mapping[str, Any]) -> str:
    """Return the text of a chat's event."""
    return event["choices"][0]["delta"].get("content") or "" if event["choices"] else ""


def of_completion(event: Mapping[str, Any]) -> str:
    """Return the text of a completion's event."""
    text: str = event["choices"][0]["text"]
    return text


def of_response(event: Mapping[str, Any]) -> str:
    """Return the text of a response's event."""
    return event["delta"] if event["type"] == "response.output_text.delta" else ""


def of_message(event: Mapping[str, Any]) -> str:
    """Return the text of an event of Anthropic's."""
    return event["delta"].get("text", "") if event["type"] == "content_block_delta" else ""


def of_cohere(event: Mapping[str, Any]) -> str:
    """Return the text of an event of Cohere's."""
    return event["delta"]["message"]["content"]["text"] if event["type"] == "content-delta" else ""


def of_ollama(line: Mapping[str, Any]) -> str:
    """Return the text of a line of Ollama's."""
    text: str = line["message"]["content"]
    return text


def of_generation(event: Mapping[str, Any]) -> str:
    """Return the text of an event of MindIE's."""
    text: str = event["text_output"]
    return text


RESPONSE: Final[Mapping[str, Any]] = {
    "model": MODEL,
    "input": MESSAGES,
    "temperature": 0,
    "max_output_tokens": NUM_TOKENS,
}
GENERATION: Final[Mapping[str, Any]] = {
    "text_input": PROMPT,
    "parameters": {"max_new_tokens": NUM_TOKENS, "output_interval_ms": 0},
}
OLLAMA: Final[Mapping[str, Any]] = {
    "model": MODEL,
    "messages": MESSAGES,
    "options": {"temperature": 0, "num_predict": NUM_TOKENS},
    "output_interval_ms": 0,
}
CALLS: Final[list[tuple[str, Mapping[str, Any], Callable[[Mapping[str, Any]], str]]]] = [
    ("/v1/chat/completions", {**CHAT, **INTERVAL}, of_chat),
    ("/v1/completions", {"model": MODEL, "prompt": PROMPT, **SAMPLING, **INTERVAL}, of_completion),
    ("/v1/responses", {**RESPONSE, **INTERVAL}, of_response),
    ("/chat/completions", {**CHAT, **INTERVAL}, of_chat),
    (f"/serving-endpoints/{MODEL}/invocations", {**CHAT, **INTERVAL}, of_chat),
    ("/v1/messages", {**CHAT, "stream": True, "output_interval_ms": 0}, of_message),
    ("/v2/chat", {**CHAT, "stream": True, "output_interval_ms": 0}, of_cohere),
    ("/api/chat", OLLAMA, of_ollama),
    (f"/v2/models/{MODEL}/generate_stream", GENERATION, of_generation),
]


@pytest.mark.parametrize(("path", "body", "text_of"), CALLS, ids=[path for path, *_ in CALLS])
def test_each_event_has_one_token(
    stack: Stack, path: str, body: Mapping[str, Any], text_of: Callable[[Mapping[str, Any]], str]
) -> None:
    """The events' texts are the texts of single tokens, as /tokenize has them, and none is missing."""
    answer = httpx.post(f"{stack.url}{path}", json=body, headers=PASS, timeout=GUARD_S)
    assert answer.status_code == 200, answer.text
    start = "{" if path == "/api/chat" else "data:"
    data = [line.removeprefix("data:").strip() for line in answer.text.splitlines() if line.startswith(start)]
    texts = [text for each in data if each != "[DONE]" if (text := text_of(json.loads(each)))]
    prompt = {"model": MODEL, "prompt": "".join(texts), "add_special_tokens": False, "return_token_strs": True}
    tokens = httpx.post(f"{stack.url}/tokenize", json=prompt, timeout=GUARD_S).json()["token_strs"]
    assert [each.strip() for each in texts if each.strip()] == [each.strip() for each in tokens if each.strip()]


def test_pieces_over_grpc_have_one_token(stack: Stack) -> None:
    """Each piece reports one token, and together they are the whole answer."""
    request = completion_pb2.CompleteRequest(
        model=MODEL,
        prompts=[prompt_pb2.Prompt(text=PROMPT)],
        sampling={"temperature": 0},
        stopping={"max_tokens": NUM_TOKENS, "ignore_eos": True},
        serving={"separate_tokens": True},
        tokens={},
        n=2,
    )
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        stub: Any = completion_pb2_grpc.CompletionServiceStub(channel)
        events = list(stub.StreamComplete(request, timeout=GUARD_S))
        whole = stub.Complete(request, timeout=GUARD_S)
    counts = [event.tokens.num_tokens for event in events if event.HasField("tokens")]
    assert counts == [1] * NUM_TOKENS * 2
    for choice in whole.choices:
        texts = [each.delta.text for each in events if each.delta.choice_index == choice.index]
        assert "".join(texts) == choice.text


@pytest.mark.parametrize(("path", "field"), [("/v1/chat/completions", "stream_options."), ("/v1/messages", "")])
def test_other_intervals_are_rejected(stack: Stack, path: str, field: str) -> None:
    """Only 0 is accepted, since other intervals are the operator's setting."""
    options = {"stream_options": {"output_interval_ms": 5}} if field else {"output_interval_ms": 5}
    answer = httpx.post(f"{stack.url}{path}", json={**CHAT, "stream": True, **options}, timeout=GUARD_S)
    assert answer.status_code == 400
    assert f"{field}output_interval_ms: must be 0, which requests an event for each token" in answer.text

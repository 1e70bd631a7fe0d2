"""Effects of other servers' fields on answers of the OpenAI style."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import text_format
from sluice.v1 import chat_pb2, completion_pb2

from tests.gateway.dialects.openai.extension_requests import ASSISTANT, USER, parse, parse_completion

EACH = {"include_usage": True, "continuous_usage_stats": True}
STARTED = 'started { id: "i" model: "m" prompt_tokens: 2 prompt_token_ids: [3, 4] }'
STREAM = [
    STARTED,
    'reasoning_delta { text: "hm" } tokens { num_tokens: 1 ids: 7 }',
    'content_delta { text: "Hi" } tokens { num_tokens: 2 ids: [8, 9] }',
    "choice_finished { finish_reason: FINISH_REASON_STOP } tokens { num_tokens: 1 ids: 1 }",
    "usage { prompt_tokens: 2 completion_tokens: 4 }",
    "completed {}",
]


def chunks(call: Any, events: list[str], kind: Any = chat_pb2.StreamChatResponse) -> list[Any]:
    """Return a stream's JSON."""
    stream = b"".join(call.encoder.chunk(text_format.Parse(event, kind())) for event in events).decode()
    *bodies, done, _ = stream.split("\n\n")
    assert done == "data: [DONE]"
    return [json.loads(body.removeprefix("data: ")) for body in bodies]


def test_every_chunk_has_usage_with_continuous_usage_stats() -> None:
    """The usage grows to that of the last chunk; the request to the service asks for token counts only."""
    call = parse(stream=True, stream_options=EACH)
    assert call.request.HasField("tokens")
    assert not call.request.tokens.ids
    received = chunks(call, STREAM)
    usages = [(each["usage"]["prompt_tokens"], each["usage"]["completion_tokens"]) for each in received]
    assert usages == [(2, 1), (2, 1), (2, 3), (2, 4), (2, 4)]
    assert all(each["usage"]["total_tokens"] == sum(pair) for each, pair in zip(received, usages, strict=True))
    assert all("token_ids" not in choice for each in received for choice in each["choices"])


def test_continuous_usage_stats_requires_include_usage() -> None:
    """`continuous_usage_stats` requires `include_usage`, as in vLLM."""
    call = parse(stream=True, stream_options={"continuous_usage_stats": True})
    assert not call.request.HasField("tokens")
    assert all("usage" not in chunk for chunk in chunks(call, STREAM))


def test_usage_in_a_completion_chunk_counts_its_choice() -> None:
    """A completion chunk's usage is that of its choice with its prompt's tokens."""
    call = parse_completion(prompt=["a", "b"], n=2, stream=True, stream_options=EACH)
    events = [
        "started { n: 2 prompt_tokens: [5, 6] }",
        'delta { choice_index: 3 text: "x" } tokens { num_tokens: 2 }',
        'delta { choice_index: 0 text: "y" } tokens { num_tokens: 1 }',
        'delta { choice_index: 3 text: "z" } tokens { num_tokens: 1 }',
        "completed {}",
    ]
    received = chunks(call, events, completion_pb2.StreamCompleteResponse)
    usages = [(each["usage"]["prompt_tokens"], each["usage"]["completion_tokens"]) for each in received]
    assert usages == [(6, 2), (5, 1), (6, 3)]


def test_chat_chunk_has_the_token_ids_of_its_text() -> None:
    """The first chunk has the prompt's ids, and each generated token's id is sent exactly once."""
    call = parse(stream=True, return_token_ids=True)
    assert call.request.tokens.ids
    first, *others = chunks(call, STREAM)
    assert first["prompt_token_ids"] == [3, 4]
    assert "token_ids" not in first["choices"][0]
    assert [each["choices"][0]["token_ids"] for each in others] == [[7], [8, 9], [1]]
    assert not any("prompt_token_ids" in each for each in others)


def test_completion_chunk_has_the_token_ids_of_its_text() -> None:
    """Each choice's first chunk has the token ids of its prompt."""
    call = parse_completion(stream=True, return_token_ids=True, n=2)
    events = [
        "started { n: 2 prompt_token_ids { ids: [3, 4] } prompt_tokens: 2 }",
        'delta { text: "x" } tokens { num_tokens: 1 ids: 7 }',
        'delta { choice_index: 1 text: "y" } tokens { num_tokens: 1 ids: 8 }',
        "choice_finished { finish_reason: FINISH_REASON_STOP } tokens { num_tokens: 1 ids: 1 }",
        "completed {}",
    ]
    received = [chunk["choices"][0] for chunk in chunks(call, events, completion_pb2.StreamCompleteResponse)]
    assert [choice["token_ids"] for choice in received] == [[7], [8], [1]]
    assert [choice.get("prompt_token_ids") for choice in received] == [[3, 4], [3, 4], None]


def test_unstreamed_answers_have_token_ids_and_prompt_logprobs() -> None:
    """Whole answers have token ids and the prompt's logprobs, where the first token has none."""
    fields = {"return_token_ids": True, "prompt_logprobs": 1}
    prompt = (
        'prompt_logprobs { token: "h" token_id: 3 } prompt_logprobs { token: "i" token_id: 4 logprob: -2'
        ' top_logprobs { token: "a" token_id: 9 logprob: -0.5 } }'
    )
    scores = [
        None,
        {
            "9": {"logprob": -0.5, "rank": 1, "decoded_token": "a"},
            "4": {"logprob": -2.0, "rank": None, "decoded_token": "i"},
        },
    ]
    chat = text_format.Parse(
        f"choices {{ finish_reason: FINISH_REASON_STOP token_ids: [7, 1] }} prompt_token_ids: [3, 4] {prompt}",
        chat_pb2.ChatResponse(),
    )
    call = parse(**fields)
    assert call.request.prompt_logprobs.top_logprobs == 1
    received = json.loads(call.encoder.whole(chat))
    assert (received["prompt_token_ids"], received["choices"][0]["token_ids"]) == ([3, 4], [7, 1])
    assert received["prompt_logprobs"] == scores
    completion = text_format.Parse(
        f"choices {{ finish_reason: FINISH_REASON_STOP token_ids: [7, 1] prompt_token_ids: [3, 4] {prompt} }}",
        completion_pb2.CompleteResponse(),
    )
    (choice,) = json.loads(parse_completion(**fields, logprobs=0).encoder.whole(completion))["choices"]
    assert (choice["prompt_token_ids"], choice["token_ids"], choice["prompt_logprobs"]) == ([3, 4], [7, 1], scores)
    assert choice["logprobs"]["tokens"] == []


ANSWER = text_format.Parse(
    'choices { finish_reason: FINISH_REASON_STOP message { content { text: "Hi" } reasoning: "hm" } }',
    chat_pb2.ChatResponse(),
)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, {"reasoning_content"}),
        ({"reasoning": {"effort": "low"}}, {"reasoning_content", "reasoning"}),
        ({"reasoning": {"exclude": True}}, set()),
        ({"include_reasoning": False}, set()),
        ({"include_reasoning": True}, {"reasoning_content"}),
    ],
)
def test_reasoning_has_the_requested_field_names_or_is_omitted(fields: dict[str, Any], names: set[str]) -> None:
    """Reasoning has the requested field names or is omitted, whole and streamed; no token id is lost."""
    message = json.loads(parse(**fields).encoder.whole(ANSWER))["choices"][0]["message"]
    assert {name: message[name] for name in message if "reasoning" in name} == dict.fromkeys(names, "hm")
    received = chunks(parse(**fields, stream=True, return_token_ids=True), STREAM)
    deltas = [each["choices"][0]["delta"] for each in received if each["choices"]]
    assert {name for delta in deltas for name in delta if "reasoning" in name} == names
    assert [i for each in received for choice in each["choices"] for i in choice.get("token_ids", [])] == [7, 8, 9, 1]


def test_echo_returns_the_assistants_last_message() -> None:
    """The answer begins with the assistant's last message, which it continues."""
    fields = {"messages": [USER, ASSISTANT], "echo": True, "continue_final_message": True}
    whole = json.loads(parse(**fields).encoder.whole(ANSWER))["choices"][0]["message"]["content"]
    received = chunks(parse(**fields, stream=True), STREAM)
    streamed = "".join(each["choices"][0]["delta"].get("content") or "" for each in received if each["choices"])
    assert whole == streamed == "I amHi"

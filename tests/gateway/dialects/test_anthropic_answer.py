"""Answers in Anthropic's dialect: the events of a stream, what they fold to, errors, headers and lists of models."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from sluice.v1 import chat_pb2
from sluice.v1.model_pb2 import Model
from sluice.v1.token_pb2 import CountTokensResponse

from gateway.dialects.anthropic.answer import AnthropicError, MessageAnswer, ModelInfoAnswer, ModelPageAnswer
from gateway.dialects.anthropic.encoder import AnthropicEncoder
from gateway.dialects.anthropic.error import AnthropicErrors
from gateway.dialects.anthropic.header import response_headers
from gateway.dialects.anthropic.messages import to_count
from gateway.dialects.anthropic.model import to_model, to_model_page
from gateway.dialects.seam.failure import Failure, Reason
from tests.gateway import golden_answers
from tests.gateway.golden_service import Answers

EVERYTHING = golden_answers.chat(
    'reasoning_delta { text: "hm " }',
    'reasoning_delta { text: "so" }',
    'content_delta { text: "" }',
    'content_delta { text: "Let " }',
    'content_delta { text: "me see." }',
    'tool_call_delta { tool_call_index: 0 id: "call_1" name: "look" }',
    r'tool_call_delta { tool_call_index: 0 arguments: "{\"x\": " }',
    'tool_call_delta { tool_call_index: 0 arguments: "1.5}" }',
    'tool_call_delta { tool_call_index: 1 id: "call_2" name: "look" }',
    golden_answers.finished("TOOL_CALLS"),
)

ANSWERS = {"everything": EVERYTHING} | {name: each for name, each in golden_answers.CHATS.items() if name != "choices"}


def encoded(events: Sequence[Any], encoder: AnthropicEncoder | None = None) -> list[dict[str, Any]]:
    """Return the events of a stream, each of which must have its type as its name."""
    encoder = encoder or AnthropicEncoder(100)
    text = b"".join(encoder.chunk(event) for event in events).decode()
    found = [each.split("\n") for each in text.removesuffix("\n\n").split("\n\n")]
    datas = [json.loads(data.removeprefix("data: ")) for _, data in found]
    assert [name for name, _ in found] == [f"event: {data['type']}" for data in datas]
    return datas


def folded(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the message that a stream's events add up to."""
    message: dict[str, Any] = events[0]["message"]
    for event in events[1:]:
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                block, delta = message["content"][event["index"]], dict(event["delta"])
                kind = delta.pop("type")
                (name,) = delta
                if kind == "input_json_delta":
                    block["text"] = block.get("text", "") + delta[name]
                else:
                    block[name] += delta[name]
            case "content_block_stop":
                block = message["content"][event["index"]]
                if block["type"] == "tool_use" and "text" in block:
                    block["input"] = json.loads(block.pop("text"))
            case "message_delta":
                message |= event["delta"] | {"usage": event["usage"]}
    return message


@pytest.mark.parametrize("shows_thinking", [True, False])
@pytest.mark.parametrize("answers", ANSWERS.values(), ids=ANSWERS)
def test_stream_events_add_up_to_the_unstreamed_answer(answers: Answers, *, shows_thinking: bool) -> None:
    """A stream's events add up to the unstreamed answer, which conforms to the type in the OpenAPI document."""
    events = encoded(answers["StreamChat"], AnthropicEncoder(100, shows_thinking=shows_thinking))
    whole = AnthropicEncoder(100, shows_thinking=shows_thinking).whole(answers["Chat"][0])  # type: ignore[arg-type]
    assert folded(events) == json.loads(whole)
    assert msgspec.json.decode(whole, type=MessageAnswer).id == "msg_0af3"


def test_each_block_ends_before_the_next_starts() -> None:
    """Each block starts, grows and stops before the next; thinking is signed at its end, calls start without input."""
    kinds = [(each["type"], each.get("index")) for each in encoded(EVERYTHING["StreamChat"])]
    assert kinds == [
        ("message_start", None),
        ("content_block_start", 0),
        *[("content_block_delta", 0)] * 3,
        ("content_block_stop", 0),
        ("content_block_start", 1),
        *[("content_block_delta", 1)] * 2,
        ("content_block_stop", 1),
        ("content_block_start", 2),
        *[("content_block_delta", 2)] * 2,
        ("content_block_stop", 2),
        ("content_block_start", 3),
        ("content_block_stop", 3),
        ("message_delta", None),
        ("message_stop", None),
    ]


def test_usage_is_cumulative_and_excludes_cached_tokens() -> None:
    """The first event has the length of the prompt, the last but one the complete usage."""
    started, *events = golden_answers.chat(*golden_answers.TEXT, golden_answers.finished())["StreamChat"]
    started.started.prompt_tokens = 12  # type: ignore[union-attr]
    first, *_, last, _ = encoded([started, *events])
    assert first["message"]["usage"] | {"output_tokens_details": None} == {
        "input_tokens": 12,
        "output_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens_details": None,
        "service_tier": "standard",
    }
    assert last["usage"] == {
        "input_tokens": 4,
        "output_tokens": 9,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 8,
        "output_tokens_details": {"thinking_tokens": 2},
        "service_tier": "standard",
    }


@pytest.mark.parametrize(
    ("end", "max_tokens", "reason", "sequence"),
    [
        (golden_answers.finished("STOP"), 100, "end_turn", None),
        ('choice_finished { finish_reason: FINISH_REASON_STOP stop_sequence: "END" }', 100, "stop_sequence", "END"),
        (golden_answers.finished("LENGTH"), 9, "max_tokens", None),
        (golden_answers.finished("LENGTH"), 10, "model_context_window_exceeded", None),
        (golden_answers.finished("TOOL_CALLS"), 9, "tool_use", None),
        (golden_answers.finished("CONTENT_FILTER"), 9, "refusal", None),
    ],
)
def test_stop_reasons(end: str, max_tokens: int, reason: str, sequence: str | None) -> None:
    """An answer cut off after nine tokens, fewer than requested, means that the context was full."""
    answers = golden_answers.chat('content_delta { text: "a" }', end)
    assert encoded(answers["StreamChat"], AnthropicEncoder(max_tokens))[-2]["delta"] == {
        "stop_reason": reason,
        "stop_sequence": sequence,
    }


@pytest.mark.parametrize("arguments", ['{\\"x\\": ', "[1]", "nothing"])
def test_tool_input_that_is_not_an_object_is_wrapped(arguments: str) -> None:
    """Tool input that is not a JSON object is returned as the value of a single key."""
    call = f'tool_call_delta {{ tool_call_index: 0 id: "call_1" name: "look" arguments: "{arguments}" }}'
    (answer,) = golden_answers.chat(call, golden_answers.finished("LENGTH"))["Chat"]
    whole = json.loads(AnthropicEncoder(9).whole(answer))  # type: ignore[arg-type]
    assert whole["content"][0]["input"] == {"INVALID_JSON": arguments.replace("\\", "")}


def test_failed_stream_ends_with_one_error_event() -> None:
    """A failed stream has no stop reason after its usage, but one last error event."""
    encoder = AnthropicEncoder(9)
    events = encoded(golden_answers.CUT_OFF["StreamChat"][:-1], encoder)
    assert [each["type"] for each in events] == ["message_start", "content_block_start", "content_block_delta"]
    failure = Failure(Reason.INTERNAL, "internal error; r-1")
    failure.request_id = "r-1"
    name, data, *_ = encoder.error(failure).decode().split("\n")
    assert (name, json.loads(data.removeprefix("data: "))) == (
        "event: error",
        {"type": "error", "error": {"type": "api_error", "message": "internal error; r-1"}, "request_id": "r-1"},
    )


def test_errors() -> None:
    """The text begins with the field; the texts for threads and long prompts are those that clients match."""

    def error(failure: Failure) -> dict[str, Any]:
        rejection = AnthropicErrors().error_response(failure)
        assert msgspec.json.decode(rejection.body, type=AnthropicError).type == "error"
        found: dict[str, Any] = json.loads(rejection.body)["error"]
        return found

    bad = Failure.of_field("top_p", "must be at most 1")
    assert error(bad) == {"type": "invalid_request_error", "message": "top_p: must be at most 1"}
    thread = Failure.of_field("thread", "not supported", Reason.UNSUPPORTED_FIELD)
    assert error(thread)["details"] == {"error_code": "thread_unsupported_request"}
    values = {"num_prompt_tokens": "3000", "limit": "2047"}
    long = Failure(Reason.PROMPT_TOO_LONG, "the prompt has 3000 tokens; the limit is 2047", values=values)
    assert error(long)["message"] == (
        "prompt is too long: 3000 tokens > 2047 maximum; the prompt has 3000 tokens; the limit is 2047"
    )
    full = Failure(Reason.QUEUE_FULL, "the queue is full", retry_after_s=1)
    assert (AnthropicErrors().error_response(full).status, error(full)["type"]) == (529, "overloaded_error")


@pytest.mark.parametrize(("duration", "seconds"), [("0s", 0), ("20ms", 0), ("1.5s", 2), ("6m0s", 360), ("1m0.6s", 61)])
def test_rate_limit_headers_have_anthropics_names(duration: str, seconds: float) -> None:
    """The headers have the rest of each limit, and the time at which it is full again."""
    limits = {
        b"x-ratelimit-limit-requests": b"60",
        b"x-ratelimit-remaining-input-tokens": b"7",
        b"x-ratelimit-reset-requests": duration.encode(),
        b"x-ratelimit-of-another-kind": b"1",
    }
    before = time.time()
    headers = dict(response_headers("r-1", limits))
    after = time.time()
    reset = datetime.fromisoformat(headers.pop(b"anthropic-ratelimit-requests-reset").decode())
    assert before + seconds - 1 <= reset.timestamp() <= after + seconds + 1  # in whole seconds
    assert headers == {
        b"request-id": b"r-1",
        b"anthropic-ratelimit-requests-limit": b"60",
        b"anthropic-ratelimit-input-tokens-remaining": b"7",
    }


MODELS = [Model(name=name, created=Timestamp(seconds=1_700_000_000), max_model_len=9) for name in "abcd"]


@pytest.mark.parametrize(
    ("query", "names", "has_more"),
    [
        ({}, "abcd", False),
        ({"limit": "2"}, "ab", True),
        ({"limit": "2", "after_id": "b"}, "cd", False),
        ({"limit": "1", "after_id": "b"}, "c", True),
        ({"after_id": "d"}, "", False),
        ({"limit": "2", "before_id": "d"}, "bc", True),
        ({"limit": "3", "before_id": "d"}, "abc", False),
    ],
)
def test_model_list_is_paginated(query: dict[str, str], names: str, *, has_more: bool) -> None:
    """A page starts after one name or ends before another."""
    page = msgspec.json.decode(to_model_page(MODELS, query), type=ModelPageAnswer)
    assert ("".join(model.id for model in page.data), page.has_more) == (names, has_more)
    assert (page.first_id, page.last_id) == ((names[0], names[-1]) if names else (None, None))


@pytest.mark.parametrize(
    ("name", "value"), [("limit", "0"), ("limit", "1001"), ("limit", "x"), ("after_id", "x"), ("before_id", "x")]
)
def test_unknown_page_is_rejected_by_parameter(name: str, value: str) -> None:
    """The error for an unknown page names the invalid parameter."""
    with pytest.raises(Failure) as caught:
        to_model_page(MODELS, {name: value})
    assert (caught.value.status, caught.value.field) == (400, name)


def test_model_and_count() -> None:
    """A model has its limits and the time when it was loaded."""
    model = msgspec.json.decode(to_model(MODELS[0]), type=ModelInfoAnswer)
    assert (model.id, model.created_at, model.max_input_tokens) == ("a", "2023-11-14T22:13:20Z", 9)
    assert to_count(CountTokensResponse(num_tokens=7)) == b'{"input_tokens":7}'
    assert chat_pb2.StreamChatResponse().WhichOneof("event") is None
    assert AnthropicEncoder(9).chunk(chat_pb2.StreamChatResponse()) == b""

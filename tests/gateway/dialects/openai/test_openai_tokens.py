"""Tokenization in vLLM's form, and the token count of a response's input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from sluice.v1 import token_pb2

from gateway.dialects.openai import tokens
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest

USER = {"role": "user", "content": "hi"}
ASSISTANT = {"role": "assistant", "content": "I"}
REPLY = token_pb2.CountTokensResponse(num_tokens=2, max_model_len=9, token_ids=[5, 6], tokens=[b"hi", b"\xc3"])


def parsed(parse: Any, **fields: Any) -> tokens.ParsedTokens:
    """Return the parsed body with these fields."""
    parsed: tokens.ParsedTokens = parse(HttpRequest(json.dumps({"model": "m", **fields}).encode()))
    return parsed


@pytest.mark.parametrize(
    ("fields", "expected_fields"),
    [
        ({"prompt": ""}, {"text": {"model": "m", "text": ""}}),
        (
            {"prompt": "a", "add_special_tokens": False},
            {"text": {"model": "m", "text": "a", "addSpecialTokens": False}},
        ),
        (
            {"messages": [USER, ASSISTANT], "continue_final_message": True, "add_special_tokens": False},
            {
                "chat": {
                    "model": "m",
                    "messages": [
                        {"role": "ROLE_USER", "content": [{"text": "hi"}]},
                        {"role": "ROLE_ASSISTANT", "content": [{"text": "I"}]},
                    ],
                    "sampling": {},
                    "stopping": {},
                    "serving": {},
                    "outputConstraint": {},
                    "continueFinalMessage": True,
                }
            },
        ),
    ],
)
def test_tokenize_accepts_a_text_or_a_conversation(fields: dict[str, Any], expected_fields: dict[str, Any]) -> None:
    """A text or a conversation becomes the prompt that the model would receive."""
    request = parsed(tokens.parse_tokenize, **fields).request
    expected = ParseDict(expected_fields | {"returnTokens": True}, token_pb2.CountTokensRequest())
    for message in (request, expected):
        assert isinstance(message, token_pb2.CountTokensRequest)
        if message.HasField("chat"):
            for name in ("sampling", "stopping", "serving", "output_constraint"):
                message.chat.ClearField(name)  # that they are there, empty, means nothing
    assert request == expected


def test_tokenized_conversation_includes_tools_and_template_variables() -> None:
    """Tools and template variables are part of a conversation's prompt."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    fields = {"messages": [USER], "tools": [tool], "chat_template_kwargs": {"a": 1}, "add_generation_prompt": False}
    request = parsed(tokens.parse_tokenize, **fields).request
    assert isinstance(request, token_pb2.CountTokensRequest)
    assert [each.function.name for each in request.chat.tools] == ["f"]
    assert json.loads(request.chat.chat_template_kwargs) == {"a": 1}
    assert request.chat.HasField("add_generation_prompt")


@pytest.mark.parametrize(
    ("parse", "fields", "field"),
    [
        (tokens.parse_tokenize, {}, "prompt"),
        (tokens.parse_tokenize, {"prompt": "a", "messages": [USER]}, "prompt"),
        (tokens.parse_tokenize, {"prompt": "a", "tools": []}, "tools"),
        (tokens.parse_tokenize, {"prompt": ["a"]}, "prompt"),
        (tokens.parse_tokenize, {"prompt": "a", "wings": 2}, "wings"),
        (tokens.parse_tokenize, {"messages": [USER], "add_special_tokens": True}, "add_special_tokens"),
        (tokens.parse_tokenize, {"messages": [USER], "chat_template": "x"}, "chat_template"),
        (tokens.parse_detokenize, {}, "tokens"),
        (tokens.parse_detokenize, {"tokens": [1, -1]}, "tokens.1"),
        (tokens.parse_detokenize, {"tokens": [2**32]}, "tokens.0"),
        (tokens.parse_detokenize, {"tokens": [1] * 450_000 * 3}, None),
        (tokens.parse_input_tokens, {}, "input"),
        (tokens.parse_input_tokens, {"input": "a", "service_tier": "x"}, "service_tier"),
    ],
)
def test_invalid_fields_are_rejected_by_name(parse: Any, fields: dict[str, Any], field: str | None) -> None:
    """Invalid bodies are rejected with the caller's name of the field."""
    with pytest.raises(Failure) as caught:
        parsed(parse, **fields)
    assert (caught.value.status, caught.value.field) == (400, field)


@pytest.mark.parametrize(
    ("parse", "fields", "path", "name"),
    [
        (tokens.parse_tokenize, {"prompt": "a"}, "text.text", "prompt"),
        (tokens.parse_tokenize, {"prompt": "a"}, "text.model", "model"),
        (tokens.parse_tokenize, {"messages": [USER]}, "chat.messages[0].content[0].text", "messages.0.content"),
        (tokens.parse_tokenize, {"messages": [USER]}, "chat.chat_template_kwargs", "chat_template_kwargs"),
        (tokens.parse_detokenize, {"tokens": [7]}, "token_ids[0]", "tokens.0"),
        (tokens.parse_input_tokens, {"input": [USER]}, "response.input[0].message.content[0].text", "input.0.content"),
        (tokens.parse_input_tokens, {"input": "a"}, "response.sampling.temperature", "temperature"),
    ],
)
def test_service_errors_name_the_callers_field(parse: Any, fields: dict[str, Any], path: str, name: str) -> None:
    """Errors of the service have the caller's field names."""
    assert parsed(parse, **fields).caller_name(path) == name


def test_token_texts_are_sent_only_on_request() -> None:
    """Texts of tokens are sent on request only; incomplete UTF-8 is shown as replacement characters."""
    plain = {"count": 2, "max_model_len": 9, "tokens": [5, 6], "token_strs": None}
    assert json.loads(parsed(tokens.parse_tokenize, prompt="a").serialize(REPLY)) == plain
    strung = parsed(tokens.parse_tokenize, prompt="a", return_token_strs=True)
    assert json.loads(strung.serialize(REPLY)) == plain | {"token_strs": ["hi", "\ufffd"]}


def test_text_and_count_are_serialized() -> None:
    """The text has vLLM's form, and the count OpenAI's."""
    joined = parsed(tokens.parse_detokenize, tokens=[1], skip_special_tokens=True)
    assert isinstance(joined.request, token_pb2.DetokenizeTextRequest)
    assert joined.request.skip_special_tokens
    assert json.loads(joined.serialize(token_pb2.DetokenizeTextResponse(text="ä"))) == {"prompt": "ä"}
    counted = parsed(tokens.parse_input_tokens, input="a")
    assert json.loads(counted.serialize(REPLY)) == {"object": "response.input_tokens", "input_tokens": 2}

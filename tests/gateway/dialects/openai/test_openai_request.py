"""Chat requests of the OpenAI style become the contract's messages, field by field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from sluice.v1 import chat_pb2

from gateway.dialects.openai.chat import OpenAITranslator
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
# Fields that don't go with the others, or that no field of the body means.
ELSEWHERE = {"continue_final_message", "default_reasoning_effort", "prompt_logprobs", "reasoning_budget", "resume"}


def parse(**fields: Any) -> ParsedRequest[chat_pb2.ChatRequest]:
    """Return the call for a valid body changed by `fields`."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return OpenAITranslator().parse(HttpRequest(json.dumps(body).encode()))


def test_request_with_every_field() -> None:
    """A body with every field that has an effect becomes the golden request, with schemas verbatim."""
    call = OpenAITranslator().parse(HttpRequest((GOLDEN / "openai_request.json").read_bytes()))
    response_format = text_format.Parse((GOLDEN / "openai_request.textproto").read_text(), chat_pb2.ChatRequest())
    assert call.request == response_format
    assert call.stream
    assert call.affinity == "user-7"


def test_golden_request_sets_every_contract_field() -> None:
    """The golden request has every field of the contract's messages except those without a REST field."""
    request = text_format.Parse((GOLDEN / "openai_request.textproto").read_text(), chat_pb2.ChatRequest())
    for message in (request, request.sampling, request.stopping, request.logprobs):
        assert {f.name for f, _ in message.ListFields()} == {f.name for f in message.DESCRIPTOR.fields} - ELSEWHERE


def test_absent_and_null_fields_are_not_set() -> None:
    """Absent fields and nulls are not in the request, so that the service applies its defaults."""
    plain = parse()
    assert {f.name for f, _ in plain.request.ListFields()} <= {"model", "messages", "sampling", "stopping"}
    assert plain.request.sampling.ListFields() == plain.request.stopping.ListFields() == []
    assert not plain.stream
    given = (
        "temperature", "top_p", "top_k", "min_p", "typical_p", "frequency_penalty", "presence_penalty", "seed", "n",
        "repetition_penalty", "max_tokens", "max_completion_tokens", "min_tokens", "stop", "stop_token_ids", "tools",
        "ignore_eos", "response_format", "tool_choice", "parallel_tool_calls", "logprobs", "top_logprobs", "stream",
        "logit_bias", "reasoning_effort", "stream_options", "store", "metadata", "user", "audio", "functions",
    )  # fmt: skip
    assert parse(**dict.fromkeys(given)).request == plain.request


@pytest.mark.parametrize(
    ("seed", "expected"),
    [(0, 0), (2**64 - 1, 2**64 - 1), (-1, 2**64 - 1), (-(2**63), 2**63), (2**63 - 1, 2**63 - 1)],
)
def test_seed(seed: int, expected: int) -> None:
    """Signed seeds become their two's complement, so that different seeds stay different."""
    assert parse(seed=seed).request.sampling.seed == expected


@pytest.mark.parametrize(
    ("fields", "max_tokens"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 5}, 5),
        ({"max_tokens": None, "max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": None}, 5),
    ],
)
def test_token_limit(fields: dict[str, Any], max_tokens: int) -> None:
    """Both names of the limit are equivalent."""
    assert parse(**fields).request.stopping.max_tokens == max_tokens


@pytest.mark.parametrize(("stop", "expected"), [("a", ["a"]), ("", [""]), (["a", "b"], ["a", "b"]), ([], [])])
def test_stop(stop: str | list[str], expected: list[str]) -> None:
    """A single stop string is a list of one."""
    assert list(parse(stop=stop).request.stopping.stop) == expected


@pytest.mark.parametrize(
    ("effort", "expected"),
    [("none", 1), ("minimal", 2), ("low", 2), ("medium", 3), ("high", 4), ("xhigh", 4), ("max", 4)],
)
def test_reasoning_effort(effort: str, expected: int) -> None:
    """OpenAI's seven efforts are mapped to the contract's four."""
    assert parse(reasoning_effort=effort).request.reasoning_effort == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", "mode: TOOL_CHOICE_MODE_NONE"),
        ("auto", "mode: TOOL_CHOICE_MODE_AUTO"),
        ("required", "mode: TOOL_CHOICE_MODE_REQUIRED"),
        ({"type": "function", "function": {"name": "f"}}, 'function_name: "f"'),
    ],
)
def test_tool_choice(choice: Any, expected: str) -> None:
    """Modes and names of tools are mapped to the contract's."""
    assert text_format.MessageToString(parse(tool_choice=choice).request.tool_choice).strip() == expected


@pytest.mark.parametrize(
    ("response_format", "expected"),
    [
        ({"type": "text"}, ""),
        ({"type": "json_object"}, "json_object { }"),
        (
            {"type": "json_schema", "json_schema": {"name": "s", "schema": {"a": 1.0}, "strict": True}},
            'json_schema { name: "s" schema: "{\\"a\\": 1.0}" strict: true }',
        ),
    ],
)
def test_response_format(response_format: Any, expected: str) -> None:
    """Free text is no constraint; a schema is copied verbatim."""
    constraint = parse(response_format=response_format).request.output_constraint
    assert text_format.MessageToString(constraint, as_one_line=True) == expected


def test_answer_is_valid_in_the_next_request() -> None:
    """An assistant's message as clients store it, with null fields, is a valid turn of the next request."""
    kept = {
        "role": "assistant", "content": None, "refusal": None, "annotations": None, "audio": None,
        "function_call": None, "reasoning_content": "hm",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }  # fmt: skip
    result = {"role": "tool", "tool_call_id": "c1", "content": "42"}
    user, assistant, tool = parse(messages=[{"role": "user", "content": "hi"}, kept, result]).request.messages
    assert assistant.reasoning == "hm"
    assert not assistant.content
    assert assistant.tool_calls[0].function.arguments == "{}"
    assert tool.tool_call_id == "c1"
    assert user.content[0].text == "hi"


def test_additional_message_fields_of_other_servers_are_ignored() -> None:
    """Messages with additional fields of other servers or clients are valid turns."""
    call = {"index": 0, "id": "c1", "type": None, "custom": None, "provider_specific_fields": {"a": [1]}}
    function = {"name": "f", "arguments": "{}", "parsed_arguments": {"a": 1}}
    kept = {
        "role": "assistant", "id": "msg_1", "parsed": {"n": 1}, "annotations": [{"type": "url_citation"}], "images": [],
        "content": [{"type": "text", "text": "a", "annotations": [], "index": 0, "id": "lc_1"}],
        "provider_specific_fields": {"refusal": None}, "thinking_blocks": None,
        "tool_calls": [call | {"function": function}],
    }  # fmt: skip
    bare = {"role": "assistant", "content": [{"type": "text", "text": "a"}]}
    bare["tool_calls"] = [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]
    user = {"role": "user", "content": "hi"}
    assert parse(messages=[user, kept]).request == parse(messages=[user, bare]).request


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"reasoning": "h\u00e9m"}, "h\u00e9m"),
        ({"reasoning": "a", "reasoning_content": "b"}, "b"),
        ({"reasoning": "a", "reasoning_content": None}, "a"),
        ({"reasoning": None}, None),
        ({"reasoning": {"effort": "low"}}, None),
        ({"reasoning": "a", "role": "user"}, None),
    ],
)
def test_reasoning_of_earlier_turns_is_accepted_under_both_names(fields: dict[str, Any], text: str | None) -> None:
    """Reasoning that is not a string, or not of the assistant, is ignored."""
    (message,) = parse(messages=[{"role": "assistant", "content": "c", **fields}]).request.messages
    assert (message.reasoning if message.HasField("reasoning") else None) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [('{"a":  1}', '{"a":  1}'), ({"a": 1.0, "b": {"c": [None]}}, '{"a":1.0,"b":{"c": [null]}}'), ({}, "{}")],
)
def test_tool_call_arguments_may_be_an_object(given: Any, text: str) -> None:
    """Arguments may be an object, as Databricks documents; its numbers stay verbatim."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": given}}
    _, assistant = parse(
        messages=[{"role": "user", "content": ""}, {"role": "assistant", "tool_calls": [call]}]
    ).request.messages
    assert assistant.tool_calls[0].function.arguments == text


@pytest.mark.parametrize(
    "field", ["metadata", "prediction", "user", "verbosity", "service_tier", "store", "modalities"]
)
def test_fields_without_effect(field: str) -> None:
    """Fields without effect don't change the request."""
    value = {
        "metadata": {"a": "b"}, "prediction": {"type": "content", "content": "x"}, "user": "u", "verbosity": "low",
        "service_tier": "auto", "store": False, "modalities": ["text"],
    }[field]  # fmt: skip
    assert parse(**{field: value}).request == parse().request

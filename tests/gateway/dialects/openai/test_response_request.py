"""Requests for responses become the contract's messages, field by field, and errors have the caller's names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import json_format

from tests.gateway.dialects.openai.response_requests import NESTED_TOOL, SCHEMA, TOOL, parse


def request_of(**fields: Any) -> dict[str, Any]:
    """Return the JSON of the contract's request without the model and the plain input."""
    request = json_format.MessageToDict(parse(**fields).request, preserving_proto_field_name=True)
    assert request.pop("model") == "m"
    if "input" not in fields:
        assert request.pop("input") == [message_of("hi")]
    request.pop("response_id", None)
    return {name: value for name, value in request.items() if value != {}}


def message_of(*texts: str, role: str = "USER") -> dict[str, Any]:
    return {"message": {"role": f"ROLE_{role}", "content": [{"text": text} for text in texts]}}


@pytest.mark.parametrize("fields", [{"store": True}, {"conversation": "conv_0af3"}])
def test_response_that_is_stored_has_an_id(fields: dict[str, Any]) -> None:
    """The gateway may have to repeat the call: the id, a new one for each request, is known before the answer."""
    ids = {parse(**fields).request.response_id for _ in range(2)}
    assert [len(each) for each in ids] == [32, 32]
    assert not parse(store=False).request.response_id


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"role": "user", "content": "hi"}, message_of("hi")),
        ({"role": "user", "content": ""}, message_of("")),
        ({"type": "message", "role": "developer", "content": "hi"}, message_of("hi", role="SYSTEM")),
        ({"role": "system", "content": "hi"}, message_of("hi", role="SYSTEM")),
        ({"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
         message_of("a", "b")),
        ({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "phase": "final_answer",
          "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []},
                      {"type": "refusal", "refusal": "no"}]}, message_of("a", "no", role="ASSISTANT")),
        ({"role": "user", "content": [{"type": "input_image", "image_url": "https://x/y.png", "detail": "low"}]},
         {"message": {"role": "ROLE_USER",
                      "content": [{"image_url": {"url": "https://x/y.png", "detail": "IMAGE_DETAIL_LOW"}}]}}),
        ({"role": "user", "content": [{"type": "input_file", "file_data": "data:,x", "filename": "x.txt"}]},
         {"message": {"role": "ROLE_USER", "content": [{"file": {"url": "data:,x", "filename": "x.txt"}}]}}),
        ({"role": "user", "content": [{"type": "input_file", "file_id": "f1"}]},
         {"message": {"role": "ROLE_USER", "content": [{"file": {"file_id": "f1"}}]}}),
        ({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": '{"a": 1.0}'},
         {"function_call": {"call_id": "c", "name": "f", "arguments": '{"a": 1.0}'}}),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": [1.0, "b"]}},
         {"function_call": {"call_id": "c", "name": "f", "arguments": '{"a":[1.0, "b"]}'}}),
        ({"type": "function_call_output", "call_id": "c", "output": "42"},
         {"function_call_output": {"call_id": "c", "output": "42"}}),
        ({"type": "function_call_output", "call_id": "c", "output": {"t": 3.50}},
         {"function_call_output": {"call_id": "c", "output": '{"t":3.5}'}}),
        ({"type": "function_call_output", "call_id": "c",
          "output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
         {"function_call_output": {"call_id": "c", "output": "ab"}}),
        ({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
         {"reasoning": {"text": "hm"}}),
        ({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "in short"}]},
         {"reasoning": {"text": "in short"}}),
        ({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}, {"reasoning": {}}),
        ({"type": "message", "role": "assistant", "call_id": None, "status": "done", "provider_specific_fields": {},
          "content": [{"type": "output_text", "text": "a", "parsed": {"n": 1}, "mood": 1}]},
         message_of("a", role="ASSISTANT")),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "parsed_arguments": {}, "index": 0,
          "caller": None, "role": "assistant"},
         {"function_call": {"call_id": "c", "name": "f", "arguments": "{}"}}),
        ({"type": "function_call_output", "call_id": "c", "output": "42", "created_by": "me"},
         {"function_call_output": {"call_id": "c", "output": "42"}}),
    ],
)  # fmt: skip
def test_items(item: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each kind of item and part becomes the contract's; JSON stays verbatim."""
    assert request_of(input=[item]) == {"input": [expected]}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"instructions": "Be kind."}, {"instructions": "Be kind."}),
        ({"temperature": 0, "top_p": 0.5, "seed": 7}, {"sampling": {"temperature": 0, "top_p": 0.5, "seed": "7"}}),
        ({"top_k": 5, "priority": -3, "cache_salt": "s"},
         {"sampling": {"top_k": 5}, "serving": {"priority": -3, "cache_salt": "s"}}),
        ({"max_output_tokens": 5, "max_tool_calls": 2}, {"max_output_tokens": 5}),
        ({"include": ["message.output_text.logprobs"]}, {}),  # present, and empty
        ({"top_logprobs": 3}, {"logprobs": {"top_logprobs": 3}}),
        ({"top_logprobs": 0}, {}),
        ({"include": ["reasoning.encrypted_content"]}, {}),
        ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, {}),
        ({"tools": [TOOL, NESTED_TOOL | {"type": "function"}]},
         {"tools": [{"function": {"name": "f", "description": "Does.", "parameters": json.dumps(SCHEMA),
                                  "strict": True}}] * 2}),
        ({"tool_choice": "required"}, {"tool_choice": {"mode": "TOOL_CHOICE_MODE_REQUIRED"}}),
        ({"tool_choice": {"type": "function", "name": "f"}}, {"tool_choice": {"function_name": "f"}}),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, {"tool_choice": {"function_name": "f"}}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"reasoning": {"effort": "minimal", "summary": "auto"}}, {"reasoning_effort": "REASONING_EFFORT_LOW"}),
        ({"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
        ({"truncation": "auto"}, {"serving": {"error_behavior": "ERROR_BEHAVIOR_TRUNCATE"}}),
        ({"truncation": "disabled"}, {}),
        ({"store": False, "background": False, "user": "u", "safety_identifier": "s"}, {}),
        ({"conversation": "conv_0af3"}, {"conversation": "0af3"}),
        ({"conversation": {"id": "conv_0af3"}}, {"conversation": "0af3"}),
        ({"previous_response_id": "resp_0af3"}, {"previous_response_id": "0af3"}),
    ],
)  # fmt: skip
def test_fields(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    """Exactly the fields with an effect are in the contract's request."""
    assert request_of(**fields) == expected


def test_logprobs_are_enabled_by_include_or_top_logprobs() -> None:
    """Either field enables logprobs; a number of 0 alone, OpenAI's default, does not."""
    assert parse(include=["message.output_text.logprobs"]).request.HasField("logprobs")
    assert not parse(top_logprobs=0).request.HasField("logprobs")
    request = parse(include=["message.output_text.logprobs"], top_logprobs=0).request
    assert request.logprobs.HasField("top_logprobs")


@pytest.mark.parametrize("inside", [False, True])
def test_json_schema_is_accepted_in_openais_and_databricks_form(*, inside: bool) -> None:
    """A schema next to its type, as in OpenAI's API, is equivalent to one inside `json_schema`, as in Databricks'."""
    named = {"name": "s", "description": "d", "schema": SCHEMA, "strict": True}
    expected = {"type": "json_schema", **({"json_schema": named} if inside else named)}
    constraint = {"json_schema": named | {"schema": json.dumps(SCHEMA)}}
    assert request_of(text={"format": expected}) == {"output_constraint": constraint}


def test_null_is_equivalent_to_an_absent_field() -> None:
    """Every field but model and input may be null."""
    names = [
        "instructions", "max_output_tokens", "max_tool_calls", "text", "reasoning", "tools", "tool_choice", "include",
        "parallel_tool_calls", "top_logprobs", "truncation", "metadata", "prompt_cache_key", "stream_options", "store",
        "background", "conversation", "previous_response_id", "prompt", "service_tier", "stream", "temperature",
    ]  # fmt: skip
    call = parse(**dict.fromkeys(names))
    assert call.request == parse().request
    assert not call.stream


@pytest.mark.parametrize("tier", ["auto", "default"])
def test_the_only_service_tier_has_no_effect(tier: str) -> None:
    """A client may send back the tier of an answer, `default`."""
    assert parse(service_tier=tier).request == parse().request


def test_stream_and_affinity() -> None:
    """`stream` is false by default; the cache key is the affinity."""
    call = parse(stream=True, prompt_cache_key="user-7", stream_options={"include_usage": True})
    assert (call.stream, call.affinity) == (True, "user-7")


@pytest.mark.parametrize(
    "fields",
    [
        {"include": ["reasoning.encrypted_content"]},
        {"prompt_cache_options": {"mode": "implicit"}},
        {"prompt_cache_retention": "24h"},
        {"reasoning": {"summary": "auto", "generate_summary": "concise", "encrypted_content": "gAAA"}},
        {"safety_identifier": "s"},
        {"text": {"verbosity": "low"}},
        {"user": "u"},
    ],
    ids=str,
)
def test_fields_without_effect(fields: dict[str, Any]) -> None:
    """Fields without effect don't change the request."""
    call = parse(**fields)
    assert (call.request, call.stream, call.affinity) == (parse().request, False, "")

"""Requests for responses become the contract's messages, field by field, and errors come back in the caller's names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import json_format
from sluice.v1 import response_pb2

from gateway.dialects.databricks.response import DatabricksResponseTranslator
from gateway.dialects.openai.response import OpenAIResponseTranslator
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {"type": "function", "name": "f", "description": "Does.", "parameters": SCHEMA, "strict": True}
NESTED_TOOL = {"type": "function", "function": {key: value for key, value in TOOL.items() if key != "type"}}


def parse(**fields: Any) -> ParsedRequest[response_pb2.CreateResponseRequest]:
    """Return the call for a valid body changed by `fields`."""
    return OpenAIResponseTranslator().parse(HttpRequest(json.dumps({"model": "m", "input": "hi", **fields}).encode()))


def sent(**fields: Any) -> dict[str, Any]:
    """Return the JSON of the contract's request without the model and the plain input."""
    request = json_format.MessageToDict(parse(**fields).request, preserving_proto_field_name=True)
    assert request.pop("model") == "m"
    if "input" not in fields:
        assert request.pop("input") == [said("hi")]
    return {name: value for name, value in request.items() if value != {}}


def said(*texts: str, role: str = "USER") -> dict[str, Any]:
    return {"message": {"role": f"ROLE_{role}", "content": [{"text": text} for text in texts]}}


def rejection(**fields: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        parse(**fields)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("item", "wanted"),
    [
        ({"role": "user", "content": "hi"}, said("hi")),
        ({"role": "user", "content": ""}, said("")),
        ({"type": "message", "role": "developer", "content": "hi"}, said("hi", role="SYSTEM")),
        ({"role": "system", "content": "hi"}, said("hi", role="SYSTEM")),
        ({"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
         said("a", "b")),
        ({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "phase": "final_answer",
          "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []},
                      {"type": "refusal", "refusal": "no"}]}, said("a", "no", role="ASSISTANT")),
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
         said("a", role="ASSISTANT")),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "parsed_arguments": {}, "index": 0,
          "caller": None, "role": "assistant"},
         {"function_call": {"call_id": "c", "name": "f", "arguments": "{}"}}),
        ({"type": "function_call_output", "call_id": "c", "output": "42", "created_by": "me"},
         {"function_call_output": {"call_id": "c", "output": "42"}}),
    ],
)  # fmt: skip
def test_items(item: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Each kind of item and part becomes the contract's; JSON stays verbatim."""
    assert sent(input=[item]) == {"input": [wanted]}


@pytest.mark.parametrize(
    ("fields", "wanted"),
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
        ({"previous_response_id": "resp_0af3"}, {"previous_response_id": "0af3"}),
    ],
)  # fmt: skip
def test_fields(fields: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Exactly the fields with an effect are in the contract's request."""
    assert sent(**fields) == wanted


def test_logprobs_are_asked_for_by_include_or_by_number() -> None:
    """Either field enables logprobs; a number of 0 alone, OpenAI's default, does not."""
    assert parse(include=["message.output_text.logprobs"]).request.HasField("logprobs")
    assert not parse(top_logprobs=0).request.HasField("logprobs")
    both = parse(include=["message.output_text.logprobs"], top_logprobs=0).request
    assert both.logprobs.HasField("top_logprobs")


@pytest.mark.parametrize("inside", [False, True])
def test_json_schema_in_both_forms(*, inside: bool) -> None:
    """A schema next to its type, as in OpenAI's API, is equivalent to one inside `json_schema`, as in Databricks'."""
    named = {"name": "s", "description": "d", "schema": SCHEMA, "strict": True}
    wanted = {"type": "json_schema", **({"json_schema": named} if inside else named)}
    constraint = {"json_schema": named | {"schema": json.dumps(SCHEMA)}}
    assert sent(text={"format": wanted}) == {"output_constraint": constraint}


def test_null_is_not_given() -> None:
    """Every field but model and input may be null."""
    names = [
        "instructions", "max_output_tokens", "max_tool_calls", "text", "reasoning", "tools", "tool_choice", "include",
        "parallel_tool_calls", "top_logprobs", "truncation", "metadata", "prompt_cache_key", "stream_options", "store",
        "background", "conversation", "previous_response_id", "prompt", "service_tier", "stream", "temperature",
    ]  # fmt: skip
    call = parse(**dict.fromkeys(names))
    assert call.request == parse().request
    assert not call.stream


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


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"background": True}, "background", Reason.UNSUPPORTED_FIELD),
        ({"conversation": "conv_1"}, "conversation", Reason.UNSUPPORTED_FIELD),
        ({"conversation": {"id": "conv_1"}}, "conversation", Reason.UNSUPPORTED_FIELD),
        ({"service_tier": "auto"}, "service_tier", Reason.UNSUPPORTED_FIELD),
        ({"previous_response_id": {}}, "previous_response_id", Reason.INVALID_TYPE),
        ({"prompt": {"id": "pmpt_1"}}, "prompt", Reason.UNSUPPORTED_FIELD),
        ({"moderation": {}}, "moderation", Reason.UNSUPPORTED_FIELD),
        ({"stream_options": {"include_usage": True}}, "stream_options", Reason.INVALID_FIELD),
        ({"include": ["everything"]}, "include.0", Reason.INVALID_FIELD),
        ({"truncation": "some"}, "truncation", Reason.INVALID_FIELD),
        ({"input": 1}, "input", Reason.INVALID_TYPE),
        ({"input": [{"content": "a"}]}, "input.0.role", Reason.MISSING_FIELD),
        ({"input": [{"role": "user"}]}, "input.0.content", Reason.MISSING_FIELD),
        ({"input": [{"role": "tool", "content": "a"}]}, "input.0.role", Reason.INVALID_FIELD),
        ({"tools": [TOOL | {"mood": 1}]}, "tools.0.mood", Reason.UNKNOWN_FIELD),
        ({"text": {"format": {"type": "json_object"}, "mood": 1}}, "text.mood", Reason.UNKNOWN_FIELD),
        ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input.0.content.0.type",
         Reason.INVALID_FIELD),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input.0.content.0.image_url",
         Reason.MISSING_FIELD),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input.0.content.0.file_data",
         Reason.MISSING_FIELD),
        ({"input": [{"role": "user", "content": [{"type": "reasoning_text", "text": "a"}]}]},
         "input.0.content.0.type", Reason.INVALID_FIELD),
        ({"input": [{"type": "reasoning", "content": [{"type": "input_text", "text": "a"}]}]},
         "input.0.content.0.type", Reason.INVALID_FIELD),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0.type", Reason.INVALID_FIELD),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]}, "input.0.arguments",
         Reason.MISSING_FIELD),
        ({"input": [{"type": "function_call_output", "call_id": "c",
                     "output": [{"type": "input_image", "image_url": "https://x"}]}]}, "input.0.output.0",
         Reason.UNSUPPORTED_MODALITY),
        ({"input": [{"role": "user", "content": "a"}] * 4097}, "input", Reason.INVALID_FIELD),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": ""}] * 1025}]}, "input.0.content",
         Reason.INVALID_FIELD),
        ({"tools": [TOOL] * 129}, "tools", Reason.INVALID_FIELD),
        ({"metadata": {str(i): "" for i in range(17)}}, "metadata", Reason.INVALID_FIELD),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type", Reason.INVALID_FIELD),
        ({"tools": [{"type": "function"}]}, "tools.0.name", Reason.MISSING_FIELD),
        ({"tools": [NESTED_TOOL | {"name": "g"}]}, "tools.0", Reason.INVALID_FIELD),
        ({"tool_choice": "any"}, "tool_choice", Reason.INVALID_FIELD),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name", Reason.MISSING_FIELD),
        ({"tool_choice": {"type": "function", "name": "f", "function": {"name": "f"}}}, "tool_choice",
         Reason.INVALID_FIELD),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name", Reason.MISSING_FIELD),
        ({"text": {"format": {"type": "json_schema", "name": "s"}}}, "text.format.schema", Reason.MISSING_FIELD),
        ({"text": {"format": {"type": "json_schema", "json_schema": {"name": "s"}}}},
         "text.format.json_schema.schema", Reason.MISSING_FIELD),
        ({"text": {"format": {"type": "json_schema", "name": "s", "json_schema": {"name": "s"}}}}, "text.format",
         Reason.INVALID_FIELD),
        ({"max_output_tokens": -1}, "max_output_tokens", Reason.INVALID_FIELD),
        ({"reasoning": {"effort": "some"}}, "reasoning.effort", Reason.INVALID_FIELD),
        ({"colour": 1}, "colour", Reason.UNKNOWN_FIELD),
    ],
)  # fmt: skip
def test_rejections_name_the_field(fields: dict[str, Any], field: str, reason: Reason) -> None:
    """Invalid or unsupported fields are rejected before the service is called."""
    failure = rejection(**fields)
    assert (failure.field, failure.reason) == (field, reason)


LISTED: dict[str, Any] = {
    "input": [
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://x"}]},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "a"}]},
        {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]},
    ]
}


@pytest.mark.parametrize(
    ("fields", "contract", "caller"),
    [
        ({}, "input[0].message.content[0].text", "input"),
        (LISTED, "input", "input"),
        (LISTED, "input[0].message.content[0].text", "input.0.content"),
        (LISTED, "input[0].message.role", "input.0.role"),
        (LISTED, "input[0].message", "input.0"),
        (LISTED, "input[1].message.content[0].image_url", "input.1.content.0.image_url"),
        (LISTED, "input[1].message.content[0].image_url.url", "input.1.content.0.image_url"),
        (LISTED, "input[1].message.content", "input.1.content"),
        (LISTED, "input[2].function_call_output.call_id", "input.2.call_id"),
        (LISTED, "input[3].reasoning.text", "input.3.content"),
        (LISTED, "input[4].message.content[0].file", "input.4.content.0"),
        (LISTED, "input[4].message.content[0].file.file_id", "input.4.content.0.file_id"),
        ({}, "sampling.temperature", "temperature"),
        ({}, "sampling.logit_bias[7]", "logit_bias.7"),
        ({}, "max_output_tokens", "max_output_tokens"),
        ({}, "logprobs.top_logprobs", "top_logprobs"),
        ({}, "reasoning_effort", "reasoning.effort"),
        ({}, "serving.error_behavior", "truncation"),
        ({}, "serving.priority", "priority"),
        ({}, 'metadata["a"]', "metadata.a"),
        ({"tools": [TOOL]}, "tools[0].function.parameters", "tools.0.parameters"),
        ({"tools": [TOOL]}, "tools[0].function", "tools.0"),
        ({"tools": [NESTED_TOOL]}, "tools[0].function.parameters", "tools.0.function.parameters"),
        ({"tool_choice": "auto"}, "tool_choice.mode", "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice.function_name", "tool_choice.name"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice.function_name",
         "tool_choice.function.name"),
        ({"text": {"format": {"type": "json_object"}}}, "output_constraint.json_object", "text.format"),
        ({"text": {"format": {"type": "json_schema", "name": "s", "schema": {}}}},
         "output_constraint.json_schema.schema", "text.format.schema"),
        ({"text": {"format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}}},
         "output_constraint.json_schema.schema", "text.format.json_schema.schema"),
    ],
)  # fmt: skip
def test_names_come_back_as_the_caller_wrote_them(fields: dict[str, Any], contract: str, caller: str) -> None:
    """The service's field paths are mapped to the caller's form of the same value."""
    assert parse(**fields).caller_name(contract) == caller


@pytest.mark.parametrize("form", ["flat", "nested"])
def test_databricks_limits_tools(form: str) -> None:
    """Databricks accepts at most 32 functions with 15 parameters each in both forms."""
    schema = {"type": "object", "properties": {f"p{i}": {} for i in range(16)}}
    big = {"name": "f", "parameters": schema}
    tool = {"type": "function", **big} if form == "flat" else {"type": "function", "function": big}
    path = "tools.0.parameters" if form == "flat" else "tools.0.function.parameters"
    for tools, field in (([tool], f"{path}.properties"), ([TOOL] * 33, "tools")):
        asked = {"model": "m", "input": "hi", "tools": tools}
        with pytest.raises(Failure) as caught:
            DatabricksResponseTranslator().parse(HttpRequest(json.dumps(asked).encode()))
        assert caught.value.field == field
        body = json.loads(DatabricksResponseTranslator().error_response(caught.value).body)
        assert body["error_code"] == "INVALID_PARAMETER_VALUE"
    assert parse(tools=[tool]).request.tools


@pytest.mark.parametrize("limit", [0, 2**32])
def test_limit_of_built_in_tools_is_in_the_contracts_range(limit: int) -> None:
    """`max_tool_calls` is validated although it has no effect."""
    with pytest.raises(Failure) as caught:
        parse(max_tool_calls=limit)
    assert (caught.value.field, caught.value.status) == ("max_tool_calls", 400)

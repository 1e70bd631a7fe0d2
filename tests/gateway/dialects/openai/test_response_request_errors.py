"""Errors about requests for responses have the caller's field names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.databricks.response import DatabricksResponseTranslator
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from tests.gateway.dialects.openai.response_requests import NESTED_TOOL, TOOL, parse


def rejection(**fields: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        parse(**fields)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"background": True, "store": False}, "background", Reason.INVALID_FIELD),
        ({"conversation": 1}, "conversation", Reason.INVALID_TYPE),
        ({"conversation": {"name": "conv_1"}}, "conversation.name", Reason.UNKNOWN_FIELD),
        ({"service_tier": "first class"}, "service_tier", Reason.UNSUPPORTED_FIELD),
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
        ({"input": [{"type": "letter", "id": "x"}]}, "input.0.type", Reason.INVALID_FIELD),
        ({"input": [{"type": "item_reference"}]}, "input.0.id", Reason.MISSING_FIELD),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "x"}]}]},
         "input.0.output.0.type", Reason.INVALID_FIELD),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text"}]}]},
         "input.0.output.0.text", Reason.MISSING_FIELD),
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
        ({"tools": [{"type": "web_search"}]}, "tools.0.type", Reason.UNSUPPORTED_FIELD),
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
def test_field_paths_are_mapped_to_the_callers_form(fields: dict[str, Any], contract: str, caller: str) -> None:
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
        fields = {"model": "m", "input": "hi", "tools": tools}
        with pytest.raises(Failure) as caught:
            DatabricksResponseTranslator().parse(HttpRequest(json.dumps(fields).encode()))
        assert caught.value.field == field
        body = json.loads(DatabricksResponseTranslator().error_response(caught.value).body)
        assert body["error_code"] == "INVALID_PARAMETER_VALUE"
    assert parse(tools=[tool]).request.tools


@pytest.mark.parametrize("limit", [0, 2**32])
def test_max_tool_calls_is_validated(limit: int) -> None:
    """`max_tool_calls` is validated although it has no effect."""
    with pytest.raises(Failure) as caught:
        parse(max_tool_calls=limit)
    assert (caught.value.field, caught.value.status) == ("max_tool_calls", 400)

"""Requests of Anthropic's dialect: the contract's requests, and the names of fields in errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import text_format
from sluice.v1 import chat_pb2

from gateway.dialects.anthropic.messages import parse_count
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from tests.gateway.dialects.anthropic_requests import CALL, HI, RESULT, SCHEMA, TOOL, parse, text


def rejection_of(**fields: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        parse(**fields)
    return caught.value


def test_request_with_every_field() -> None:
    """Each field with an effect becomes a field of the contract, and schemas are copied verbatim."""
    call = parse(
        system="Be brief.",
        stop_sequences=["END"],
        stream=True,
        temperature=0.5,
        top_p=0.9,
        top_k=7,
        tools=[{**TOOL, "description": "Looks.", "strict": True, "type": "custom"}],
        tool_choice={"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        thinking={"type": "enabled", "budget_tokens": 2048},
        max_tokens=4096,
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
        seed=7,
        priority=3,
        ignore_eos=True,
    )
    assert call.stream
    wanted = """
        model: "m"
        messages { role: ROLE_SYSTEM content { text: "Be brief." } }
        messages { role: ROLE_USER content { text: "hi" } }
        sampling { temperature: 0.5 top_p: 0.9 top_k: 7 seed: 7 }
        stopping { max_tokens: 4096 stop: "END" ignore_eos: true }
        output_constraint { json_schema { name: "output" schema: '{"type": "object", "maximum": 1.0}' } }
        tools { function { name: "look" description: "Looks." strict: true
                           parameters: '{"type": "object", "maximum": 1.0}' } }
        tool_choice { function_name: "look" }
        parallel_tool_calls: false
        reasoning_effort: REASONING_EFFORT_HIGH
        serving { priority: 3 }
        reasoning_budget: 2048
    """
    assert call.request == text_format.Parse(wanted, chat_pb2.ChatRequest())


def test_request_with_required_fields_only() -> None:
    """Absent fields stay unset except for the thinking, which is off by default."""
    wanted = """model: "m" messages { role: ROLE_USER content { text: "hi" } } stopping { max_tokens: 100 }
        reasoning_effort: REASONING_EFFORT_NONE"""
    least = text_format.Parse(wanted, chat_pb2.ChatRequest())
    nothing: dict[str, Any] = dict.fromkeys(
        ("system", "tools", "tool_choice", "thinking", "output_config", "stop_sequences", "top_k", "metadata", "stream",
         "cache_control", "container", "mcp_servers", "thread", "speed", "service_tier")
    )  # fmt: skip
    for given in ({}, nothing, {"mcp_servers": [], "service_tier": "auto", "speed": "standard"}):
        assert parse(**given).request == least


@pytest.mark.parametrize(
    ("thinking", "effort", "converted"),
    [
        ({"type": "disabled"}, "max", (chat_pb2.REASONING_EFFORT_NONE, 0)),
        ({"type": "between_tools"}, None, (chat_pb2.REASONING_EFFORT_NONE, 0)),
        ({"type": "adaptive"}, None, (chat_pb2.REASONING_EFFORT_HIGH, 0)),
        ({"type": "adaptive", "display": "summarized"}, "low", (chat_pb2.REASONING_EFFORT_LOW, 0)),
        ({"type": "adaptive"}, "medium", (chat_pb2.REASONING_EFFORT_MEDIUM, 0)),
        ({"type": "adaptive"}, "xhigh", (chat_pb2.REASONING_EFFORT_HIGH, 0)),
        ({"type": "enabled", "budget_tokens": 1024}, "low", (chat_pb2.REASONING_EFFORT_HIGH, 1024)),
    ],
)
def test_thinking(thinking: dict[str, Any], effort: str | None, converted: tuple[int, int]) -> None:
    """A budget stays a budget; `adaptive` uses the effort, which is high by default."""
    request = parse(thinking=thinking, output_config={"effort": effort}, max_tokens=2000).request
    assert (request.reasoning_effort, request.reasoning_budget) == converted


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ({"type": "auto"}, "tool_choice { mode: TOOL_CHOICE_MODE_AUTO }"),
        ({"type": "any", "disable_parallel_tool_use": True},
         "tool_choice { mode: TOOL_CHOICE_MODE_REQUIRED } parallel_tool_calls: false"),
        ({"type": "any", "disable_parallel_tool_use": False},
         "tool_choice { mode: TOOL_CHOICE_MODE_REQUIRED } parallel_tool_calls: true"),
        ({"type": "none"}, "tool_choice { mode: TOOL_CHOICE_MODE_NONE }"),
    ],
)  # fmt: skip
def test_tool_choice(choice: dict[str, Any], wanted: str) -> None:
    """The four tool choices are mapped, and whether several calls are allowed."""
    converted = parse(tools=[TOOL], tool_choice=choice).request
    for name in ("tool_choice", "parallel_tool_calls"):
        expected = text_format.Parse(wanted, chat_pb2.ChatRequest())
        assert getattr(converted, name) == getattr(expected, name)
        assert converted.HasField(name) == expected.HasField(name)


@pytest.mark.parametrize(
    ("fields", "name", "reason"),
    [
        ({"max_tokens": "5"}, "max_tokens", Reason.INVALID_TYPE),
        ({"temperature": 1.01}, "temperature", Reason.INVALID_FIELD),
        ({"top_k": -1}, "top_k", Reason.INVALID_FIELD),
        ({"thinking": {"type": "enabled", "budget_tokens": 1023}}, "thinking.budget_tokens", Reason.INVALID_FIELD),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking.budget_tokens", Reason.INVALID_FIELD),
        ({"thinking": {"type": "sometimes"}}, "thinking.type", Reason.INVALID_FIELD),
        ({"container": "c"}, "container", Reason.UNSUPPORTED_FIELD),
        ({"mcp_servers": [{}]}, "mcp_servers", Reason.UNSUPPORTED_FIELD),
        ({"thread": {"type": "create"}}, "thread", Reason.UNSUPPORTED_FIELD),
        ({"speed": "fast"}, "speed", Reason.INVALID_FIELD),
        ({"wings": 2}, "wings", Reason.UNKNOWN_FIELD),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0.type", Reason.UNSUPPORTED_FIELD),
        ({"tools": [{"type": "web_search_20250305", "name": "w", "max_uses": 2}]}, "tools.0.type",
         Reason.UNSUPPORTED_FIELD),
        ({"tools": [{"type": "mcp_toolset", "mcp_server_name": "m"}]}, "tools.0.type", Reason.UNSUPPORTED_FIELD),
        ({"tools": [TOOL, {"type": "computer_20251124", "name": "c", "uses": 3}]}, "tools.1.type",
         Reason.UNSUPPORTED_FIELD),
        ({"tools": [{"type": "web_search_20250305", "name": "w", "max_uses": 2}, {**TOOL, "wings": 2}]},
         "tools.1.wings", Reason.UNKNOWN_FIELD),
        ({"messages": [], "system": "s"}, "messages", Reason.INVALID_FIELD),
        ({"tools": [{"name": "look"}]}, "tools.0.input_schema", Reason.MISSING_FIELD),
        ({"tools": [{**TOOL, "wings": 2}]}, "tools.0.wings", Reason.UNKNOWN_FIELD),
        ({"tools": [TOOL] * 129}, "tools", Reason.INVALID_FIELD),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema", Reason.MISSING_FIELD),
        ({"output_format": {"schema": {}}}, "output_format.type", Reason.MISSING_FIELD),
        ({"system": [{"text": "x"}]}, "system.0.type", Reason.MISSING_FIELD),
        ({"stop_sequences": ["x"] * 17}, "stop_sequences", Reason.INVALID_FIELD),
        ({"messages": [{"role": "user", "content": [CALL]}]}, "messages.0.content.0.type", Reason.INVALID_FIELD),
        ({"messages": [HI, {"role": "assistant", "content": [RESULT]}]}, "messages.1.content.0.type",
         Reason.INVALID_FIELD),
        ({"messages": [{"role": "user", "content": [text("x")] * 1025}]}, "messages.0.content", Reason.INVALID_FIELD),
        ({"messages": [HI, {"role": "assistant", "content": [CALL] * 129}]}, "messages.1.content",
         Reason.INVALID_FIELD),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages.0.content.0.type",
         Reason.INVALID_FIELD),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role", Reason.INVALID_FIELD),
    ],
)  # fmt: skip
def test_unsupported_fields_are_rejected(fields: dict[str, Any], name: str, reason: Reason) -> None:
    """Unsupported fields are rejected with the field's name and the reason."""
    failure = rejection_of(**fields)
    assert (failure.status, failure.reason, failure.field) == (400, reason, name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("messages[0].content[0].text", "system"),
        ("messages[1].content", "messages.0.content"),
        ("messages[1].content[0].text", "messages.0.content"),
        ("messages[2].content[0]", "messages.1.content.0"),
        ("messages[2].tool_calls[0].function.name", "messages.1.content.1.name"),
        ("messages[2].tool_calls[0].id", "messages.1.content.1.id"),
        ("messages[3].tool_call_id", "messages.2.content.0.tool_use_id"),
        ("messages[3].content[0]", "messages.2.content.0.content"),
        ("messages[4].content[0].image_url", "messages.2.content.1"),
        ("messages[5]", "messages.4"),
        ("messages", "messages"),
        ("sampling.top_p", "top_p"),
        ("stopping.max_tokens", "max_tokens"),
        ("stopping.stop[1]", "stop_sequences.1"),
        ("output_constraint.json_schema.schema", "output_config.format.schema"),
        ("tools[3].function.name", "tools.3.name"),
        ("tools[3].function.parameters", "tools.3.input_schema"),
        ("tool_choice", "tool_choice"),
        ("tool_choice.function_name", "tool_choice.name"),
        ("reasoning_budget", "thinking.budget_tokens"),
        ("reasoning_effort", "thinking"),
        ("serving.priority", "priority"),
    ],
)
def test_fields_have_the_callers_names(path: str, name: str) -> None:
    """Field paths are mapped back, past the system prompt, tool results and merged turns."""
    picture = {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}}
    turns = [
        HI,
        {"role": "assistant", "content": [text("a"), CALL]},
        {"role": "user", "content": [RESULT, picture]},
        {"role": "user", "content": "more"},
        {"role": "assistant", "content": "b"},
    ]
    body = {
        "system": "s",
        "messages": turns,
        "tools": [TOOL],
        "output_config": {"format": {"type": "json_schema", "schema": {}}},
    }
    assert parse(**body).caller_name(path) == name
    http_request = HttpRequest(json.dumps({"model": "m", **body}).encode())
    assert parse_count(http_request).caller_name(f"chat.{path}") == name


def test_output_format_is_an_alias_of_output_config_format() -> None:
    """`output_format` is equivalent to `output_config.format`, also in errors."""
    call = parse(output_format={"type": "json_schema", "schema": SCHEMA})
    assert call.request.output_constraint.json_schema.schema == json.dumps(SCHEMA)
    assert call.caller_name("output_constraint.json_schema.schema") == "output_format.schema"


def test_token_count_is_of_the_message_requests_prompt() -> None:
    """The counted prompt is that of the message request, without the fields of the answer."""
    body = {"model": "m", "messages": [HI], "system": "s", "tools": [TOOL], "thinking": {"type": "adaptive"}}
    counted = parse_count(HttpRequest(json.dumps(body).encode())).request.chat
    converted = parse(**body).request
    for name in ("stopping", "sampling", "serving"):
        converted.ClearField(name)
    assert counted == converted

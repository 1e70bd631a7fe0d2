"""Malicious JSON in every field that accepts JSON is rejected with the field's name, and never causes a 5xx."""

from __future__ import annotations

import json
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import json_format
from sluice.v1 import chat_pb2, chat_pb2_grpc

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

POISON = {
    "2^64": '{"type": "integer", "minimum": 18446744073709551616}',
    "-2^65": '{"type": "integer", "maximum": -36893488147419103232}',
    "an exponent of 999": '{"type": "number", "maximum": 1e999}',
    "5,000 digits": '{"const": ' + "1" * 5000 + "}",
    "NaN": '{"const": NaN}',
    "a duplicate key": '{"const": 1, "const": 2}',
    "an unpaired surrogate": r'{"const": "\ud800"}',
    "a key with an unpaired surrogate": r'{"properties": {"\udc00": {}}}',
    "an enum that is a number": '{"enum": 5}',
    "deep nesting": '{"anyOf": [' * 60 + "{}" + "]}" * 60,
    "lengths without end": '{"type": "string", "minLength": 1e30}',
}
HEAVY = {  # accepted where it does not constrain the answer
    "an expression that explodes": r'{"type": "string", "pattern": "((a{1000}){1000}){1000}"}',
    "a schema that is itself": '{"$ref": "#"}',
}
AS_TEXT = {"tools", "history", "anthropic tools", "anthropic history"}  # fields in which it is only text
MESSAGES = [{"role": "user", "content": "hi"}]


def bodies(schema: str) -> dict[str, tuple[str, str]]:
    """Return a path and a body by the position of the schema in the body."""
    chat = f'"model": "sluice-demo", "max_tokens": 2, "messages": {json.dumps(MESSAGES)}'
    parameters = f'{{"type": "object", "properties": {{"a": {schema}}}}}'
    tools = f'"tools": [{{"type": "function", "function": {{"name": "f", "parameters": {parameters}}}}}]'
    form = f'"response_format": {{"type": "json_schema", "json_schema": {{"name": "x", "schema": {schema}}}}}'
    response = '"model": "sluice-demo", "max_output_tokens": 16, "input": "hi"'
    called = {"id": "a", "type": "function", "function": {"name": "f", "arguments": schema}}
    history = [*MESSAGES, {"role": "assistant", "tool_calls": [called]}]
    history.append({"role": "tool", "tool_call_id": "a", "content": "x"})
    openai, anthropic = "/v1/chat/completions", "/v1/messages"
    expected = f'"output_config": {{"format": {{"type": "json_schema", "schema": {schema}}}}}'
    offered = f'"tools": [{{"name": "f", "input_schema": {parameters}}}]'
    used = f'{{"type": "tool_use", "id": "a", "name": "f", "input": {{"a": {schema}}}}}'
    turns = f'{json.dumps(MESSAGES[0])}, {{"role": "assistant", "content": [{used}]}}'
    return {
        "format": (openai, f"{{{chat}, {form}}}"),
        "tools": (openai, f'{{{chat}, {tools}, "tool_choice": "auto"}}'),
        "demanded tools": (openai, f'{{{chat}, {tools}, "tool_choice": "required"}}'),
        "history": (openai, json.dumps({"model": "sluice-demo", "max_tokens": 2, "messages": history})),
        "response format": (
            "/v1/responses",
            f'{{{response}, "text": {{"format": {{"type": "json_schema", "name": "x", "schema": {schema}}}}}}}',
        ),
        "metadata": ("/v1/responses", f'{{{response}, "metadata": {schema}}}'),
        "databricks": ("/serving-endpoints/sluice-demo/invocations", f"{{{chat}, {form}}}"),
        "anthropic": (anthropic, f"{{{chat}, {expected}}}"),
        "anthropic tools": (anthropic, f"{{{chat}, {offered}}}"),
        "anthropic history": (anthropic, f'{{"model": "sluice-demo", "max_tokens": 2, "messages": [{turns}]}}'),
        "azure": ("/chat/completions?api-version=2024-05-01-preview", f"{{{chat}, {form}}}"),
    }


@pytest.mark.parametrize("poison", [*POISON.values(), *HEAVY.values()], ids=[*POISON, *HEAVY])
def test_rest_rejects_malicious_json_or_accepts_it_as_text(stack: Stack, poison: str) -> None:
    for position, (path, body) in bodies(poison).items():
        answer = httpx.post(
            stack.url + path, content=body, headers={"content-type": "application/json"}, timeout=GUARD_S
        )
        assert answer.status_code in {200, 400, 422}, (position, answer.text)
        assert answer.is_success or answer.json(), position
        if position not in AS_TEXT and poison not in HEAVY.values():
            assert not answer.is_success, (position, answer.text)


@pytest.mark.parametrize("poison", [*POISON.values(), *HEAVY.values()], ids=[*POISON, *HEAVY])
def test_grpc_rejects_malicious_json_by_field_or_accepts_it_as_text(stack: Stack, poison: str) -> None:
    message: dict[str, Any] = {"role": "ROLE_USER", "content": [{"text": "hi"}]}
    common = {"model": "sluice-demo", "messages": [message], "stopping": {"maxTokens": 2}}
    parameters = f'{{"type": "object", "properties": {{"a": {poison}}}}}'
    function = {"name": "f", "parameters": parameters}
    constraint = {"jsonSchema": {"name": "x", "schema": poison}}
    asking = {"role": "ROLE_ASSISTANT", "toolCalls": [{"id": "a", "function": {"name": "f", "arguments": poison}}]}
    result = {"role": "ROLE_TOOL", "toolCallId": "a", "content": [{"text": "x"}]}
    with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
        chat = chat_pb2_grpc.ChatServiceStub(channel).Chat
        cases: dict[str, dict[str, Any]] = {
            "output_constraint.json_schema.schema": {"outputConstraint": constraint},
            "tools[0].function.parameters": {"tools": [{"function": {**function, "strict": True}}]},
            "tools[0]": {"tools": [{"function": function}]},
            "messages": {"messages": [message, asking, result]},
        }
        for field, extra in cases.items():
            request = json_format.ParseDict({**common, **extra}, chat_pb2.ChatRequest())
            call = chat.future(request, timeout=GUARD_S)
            if call.exception() is not None:
                assert call.code() is grpc.StatusCode.INVALID_ARGUMENT, (field, call.details())
                assert call.details().startswith(field), (field, call.details())
            else:
                assert field in {"tools[0]", "messages"} or poison in HEAVY.values(), field

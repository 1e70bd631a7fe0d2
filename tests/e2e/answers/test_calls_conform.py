"""A call that the model makes without being required to has arguments that match the function's schema."""

from __future__ import annotations

import json
from typing import Any

import httpx
import jsonschema
import pytest

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

OPENS_CALL = "2042"  # the bundled model's token <tool_call>
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
    },
    "required": ["city", "unit", "days"],
    "additionalProperties": False,
}
UNENFORCEABLE = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}}
SCHEMAS = {"forecast": SCHEMA, "tag": {"type": "object"}}
TOOLS = [
    {"type": "function", "function": {"name": "forecast", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "tag", "parameters": UNENFORCEABLE}},
]


def ask(stack: Stack, **fields: Any) -> httpx.Response:
    body = {
        "model": "sluice-demo",
        "messages": [{"role": "user", "content": "What will the weather be?"}],
        "tools": TOOLS,
        "temperature": 1.3,
        "logit_bias": {OPENS_CALL: 4},
        "max_tokens": 200,
        "n": 8,
        "seed": 3,
        **fields,
    }
    return httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S)


def streamed(answer: httpx.Response) -> dict[tuple[int, int], dict[str, str]]:
    """Return the calls by choice and index."""
    calls: dict[tuple[int, int], dict[str, str]] = {}
    for line in answer.text.splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[len("data: ") :])["choices"]:
            for delta in choice["delta"].get("tool_calls") or ():
                call = calls.setdefault((choice["index"], delta["index"]), {"name": "", "arguments": ""})
                call["name"] += delta["function"].get("name") or ""
                call["arguments"] += delta["function"].get("arguments") or ""
    return calls


@pytest.mark.parametrize("stream", [False, True])
def test_optional_calls_match_their_schemas(stack: Stack, *, stream: bool) -> None:
    """Calls match their schemas without `strict` or `required`, with another tool whose schema cannot be enforced."""
    answer = ask(stack, stream=stream)
    assert answer.status_code == 200, answer.text
    if stream:
        calls = list(streamed(answer).values())
    else:
        choices = answer.json()["choices"]
        assert {choice["finish_reason"] for choice in choices} <= {"tool_calls", "length", "stop"}
        calls = [
            call["function"]
            for choice in choices
            if choice["finish_reason"] == "tool_calls"
            for call in choice["message"]["tool_calls"]
        ]
    whole = [call for call in calls if not stream or call["arguments"].endswith("}")]
    assert len(whole) > 3
    assert "forecast" in {call["name"] for call in whole}
    for call in whole:
        jsonschema.validate(json.loads(call["arguments"]), SCHEMAS[call["name"]])


def test_unenforceable_schema_of_a_strict_tool_is_rejected(stack: Stack) -> None:
    """The error names the unsupported keyword of a strict tool's schema."""
    strict = {"type": "function", "function": {"name": "tag", "parameters": UNENFORCEABLE, "strict": True}}
    answer = ask(stack, tools=[strict])
    assert answer.status_code == 400
    assert "uniqueItems" in answer.json()["error"]["message"]

"""Constrained answers that reach max_tokens are valid, and too small a limit is rejected with the smallest one."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import jsonschema
import pytest

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "details": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "green"]}, "size": {"type": "number"}},
            "required": ["colour", "size"],
            "additionalProperties": False,
        },
    },
    "required": ["title", "tags"],
    "additionalProperties": False,
}
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Describe a house."}]}
FORMAT: dict[str, Any] = {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}
CALL: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "describe", "parameters": SCHEMA}}],
    "tool_choice": "required",
}


def ask(stack: Stack, path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
    body = {"model": "sluice-demo", "temperature": 1.5, "seed": 5, **fields}
    return httpx.post(stack.url + path, json=body, timeout=GUARD_S)


def smallest_limit(response: httpx.Response, param: str) -> int:
    """Return the smallest accepted limit, as reported by the error."""
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["param"] == param
    found = re.search(r"at least (\d+)", error["message"])
    assert found, error
    return int(found[1])


@pytest.mark.parametrize("demands", [FORMAT, CALL], ids=["format", "call"])
@pytest.mark.parametrize("effort", ["none", "high"])
def test_answers_are_complete_from_the_smallest_limit_on(stack: Stack, demands: dict[str, Any], effort: str) -> None:
    """The reported limit works, one less does not, and reasoning leaves enough tokens for the answer."""
    fields = {**CHAT, **demands, "reasoning_effort": effort}
    smallest = smallest_limit(ask(stack, **fields, max_tokens=1), "max_tokens")
    assert smallest_limit(ask(stack, **fields, max_completion_tokens=smallest - 1), "max_completion_tokens") == smallest
    for extra in (0, 1, 7, 40):
        answer = ask(stack, **fields, max_tokens=smallest + extra, n=4)
        assert answer.status_code == 200, answer.text
        assert answer.json()["usage"]["completion_tokens"] <= 4 * (smallest + extra)
        for choice in answer.json()["choices"]:
            assert choice["finish_reason"] in ("length", "tool_calls" if demands is CALL else "stop")
            message = choice["message"]
            texts = [message["content"]]
            if demands is CALL:
                texts = [call["function"]["arguments"] for call in message["tool_calls"]]
                assert texts
            for text in texts:
                jsonschema.validate(json.loads(text), SCHEMA)


def test_answer_within_the_limit_finishes_with_stop(stack: Stack) -> None:
    """An answer within the limit finishes with "stop" and is the same under any such limit."""
    demands: dict[str, Any] = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"enum": ["a", "b"]}}}
    }
    answers = [ask(stack, **CHAT, **demands, max_tokens=limit).json()["choices"] for limit in (20, 200)]
    assert answers[0] == answers[1]
    assert answers[0][0]["finish_reason"] == "stop"


def test_responses_api_error_names_max_output_tokens(stack: Stack) -> None:
    """The Responses API names max_output_tokens, and a response at the limit is incomplete with valid text."""
    fields: dict[str, Any] = {
        "input": "Describe a house.",
        "text": {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}},
    }
    fields["reasoning"] = {"effort": "none"}
    smallest = smallest_limit(ask(stack, "/v1/responses", **fields, max_output_tokens=1), "max_output_tokens")
    answer = ask(stack, "/v1/responses", **fields, max_output_tokens=smallest).json()
    jsonschema.validate(json.loads(answer["output"][-1]["content"][0]["text"]), SCHEMA)
    assert answer["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}

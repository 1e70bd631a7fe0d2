"""Items of tools that OpenAI's server runs, in a conversation that was begun there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.seam.failure import Failure, Reason
from tests.gateway.dialects.openai.response_requests import parse

MESSAGE = {"role": "user", "content": "Which?"}
MCP = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "docs.read", "arguments": '{"a": 1}'}
CODE = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "container_id": "x",
    "code": "print(1)",
    "status": "completed",
    "outputs": [{"type": "logs", "logs": "1\n"}, {"type": "image", "url": "https://x"}],
}
SEARCH = {"type": "file_search_call", "id": "fs_1", "queries": ["cats"], "status": "completed"}
LEFT_OUT: list[dict[str, Any]] = [
    {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "a"}},
    {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "aGk="},
    {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": [{"name": "a", "input_schema": {}}]},
    {"type": "mcp_approval_request", "id": "r", "server_label": "s", "name": "a", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True},
    {"type": "tool_search_call", "arguments": {"query": "a"}, "call_id": "t"},
    {"type": "tool_search_output", "call_id": "t", "tools": [], "execution": "server"},
    {"type": "program", "id": "p", "call_id": "p", "code": "1", "fingerprint": "f"},
    {"type": "program_output", "id": "p", "call_id": "p", "result": "1", "status": "completed"},
    SEARCH | {"results": None},
]


def pair(item: dict[str, Any]) -> tuple[str, Any, str]:
    """Return the name, the arguments and the output of the call that an item becomes."""
    call, output, message = parse(input=[item, MESSAGE]).request.input
    assert call.function_call.call_id == output.function_call_output.call_id == item["id"]
    assert message.HasField("message")
    function = call.function_call
    return function.name, json.loads(function.arguments), output.function_call_output.output


def test_items_with_results_are_calls_with_outputs() -> None:
    """The model sees what was called, and the result."""
    assert pair(MCP | {"output": "text"}) == ("docs_read", {"a": 1}, "text")
    assert pair(MCP | {"output": None, "error": "failed"}) == ("docs_read", {"a": 1}, "failed")
    assert pair(MCP | {"error": {"code": 1}}) == ("docs_read", {"a": 1}, '{"code":1}')
    assert pair(CODE) == ("code_interpreter", {"code": "print(1)"}, "1\n")
    results = [{"filename": "a.txt", "text": "Cats.", "score": 0.5}, {"filename": "b.txt", "text": "More."}]
    assert pair(SEARCH | {"results": results}) == (
        "file_search",
        {"queries": ["cats"]},
        "a.txt: Cats.\n\nb.txt: More.",
    )


@pytest.mark.parametrize("item", LEFT_OUT, ids=lambda item: str(item["type"]))
def test_items_without_results_are_left_out(item: dict[str, Any]) -> None:
    """What they found is in the messages after them."""
    assert len(parse(input=[item, MESSAGE]).request.input) == 1


def test_errors_name_the_item_of_the_caller() -> None:
    """Items that are left out, or become two, don't shift the names."""
    caller_name = parse(input=[LEFT_OUT[0], MCP | {"output": "a"}, MESSAGE]).caller_name
    names = ["input[0].function_call.arguments", "input[1].function_call_output", "input[2].message.role", "input[9].x"]
    assert [caller_name(each) for each in names] == ["input.1.arguments", "input.1", "input.2.role", "input.2.x"]


@pytest.mark.parametrize(
    "kind", ["compaction", "compaction_trigger", "computer_call", "computer_call_output", "additional_tools"]
)
def test_unreadable_items_are_rejected(kind: str) -> None:
    """The error names the field and says what to do instead."""
    with pytest.raises(Failure) as raised:
        parse(input=[MESSAGE, {"type": kind, "id": "i", "role": "developer", "encrypted_content": "x"}])
    assert (raised.value.field, raised.value.reason) == ("input.1.type", Reason.UNSUPPORTED_FIELD)
    assert f"'{kind}' is not supported: " in raised.value.text


@pytest.mark.parametrize("item", [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}])
def test_references_name_stored_items(item: dict[str, Any]) -> None:
    """The service replaces them by the items; OpenAI's type of them is optional."""
    parsed = parse(input=[item, MESSAGE])
    assert parsed.request.input[0].reference.id == "msg_1"
    assert parsed.caller_name("input[0].reference.id") == "input.0.id"

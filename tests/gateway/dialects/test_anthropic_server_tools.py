"""Blocks of tools that ran on Anthropic's server, in conversations that were begun there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.seam.failure import Failure
from tests.gateway.dialects.anthropic_requests import HI, RESULT, TOOL, parse, text
from tests.gateway.dialects.test_anthropic_conversation import messages

SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "sky"}, "caller": None}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "s1",
    "content": [
        {"type": "web_search_result", "title": "Sky", "url": "https://a", "encrypted_content": "?", "page_age": "May"},
        {"type": "web_search_result", "title": "Blue", "url": "https://b", "encrypted_content": "?"},
    ],
}


def answer(*blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a turn of the assistant."""
    return {"role": "assistant", "content": list(blocks)}


def result(kind: str, content: Any) -> dict[str, Any]:
    """Return the result of SEARCH, whose block has this type and content."""
    return {"type": kind, "tool_use_id": "s1", "content": content}


def test_server_tool_is_shown_as_a_call_and_its_result() -> None:
    """The text before the call, the call, its result and the text after it keep their order, as does the thinking."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert messages(HI, answer(thought, text("Let me look."), SEARCH, FOUND, thought, text("Blue.")), HI)[1:-1] == [
        (
            'role: ROLE_ASSISTANT content { text: "Let me look." } tool_calls { id: "s1" function { name: "web_search" '
            'arguments: "{\\"query\\":\\"sky\\"}" } } reasoning: "hm"'
        ),
        'role: ROLE_TOOL content { text: "Sky\\nhttps://a\\nMay\\n\\nBlue\\nhttps://b" } tool_call_id: "s1"',
        'role: ROLE_ASSISTANT content { text: "Blue." } reasoning: "hm"',
    ]


def test_client_tool_may_follow_or_run_within_a_server_tool() -> None:
    """A program on the server calls the client's tool; the result of the program is in the assistant's next turn."""
    program = {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {"code": "look()"}}
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}, "caller": {"type": "code_execution_20260120"}}
    printed = result("code_execution_tool_result", {"type": "code_execution_result", "stdout": "1", "stderr": ""})
    parsed = messages(HI, answer(program, call), {"role": "user", "content": [RESULT]}, answer(printed, text("1")), HI)
    assert parsed[1:-1] == [
        (
            'role: ROLE_ASSISTANT tool_calls { id: "s1" function { name: "code_execution" arguments: "{\\"code\\":'
            '\\"look()\\"}" } } tool_calls { id: "c1" function { name: "look" arguments: "{}" } }'
        ),
        'role: ROLE_TOOL content { text: "seen" } tool_call_id: "c1"',
        'role: ROLE_TOOL content { text: "1" } tool_call_id: "s1"',
        'role: ROLE_ASSISTANT content { text: "1" }',
    ]


@pytest.mark.parametrize("blocks", [[SEARCH], [FOUND]])
def test_call_without_result_and_result_without_call_are_left_out(blocks: list[dict[str, Any]]) -> None:
    """A paused turn ends with a call that only Anthropic's server can run."""
    assert messages(HI, answer(text("Well"), *blocks), HI)[1:-1] == ['role: ROLE_ASSISTANT content { text: "Well" }']


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        (result("web_search_tool_result", {"type": "web_search_tool_result_error", "error_code": "unavailable"}),
         "Error: unavailable"),
        (result("web_fetch_tool_result", {"type": "web_fetch_result", "url": "https://a", "content": {
            "type": "document", "title": "A", "source": {"type": "text", "media_type": "text/plain", "data": "body"}}}),
         "https://a\\nA\\nbody"),
        (result("web_fetch_tool_result", {"type": "web_fetch_result", "url": "https://a", "content": {
            "type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}}}),
         "https://a"),
        (result("bash_code_execution_tool_result", {
            "type": "bash_code_execution_result", "stdout": "out", "stderr": "err", "return_code": 1, "content": []}),
         "out\\nerr"),
        (result("code_execution_tool_result", {
            "type": "encrypted_code_execution_result", "encrypted_stdout": "?", "stderr": "", "return_code": 0}), ""),
        (result("text_editor_code_execution_tool_result", {
            "type": "text_editor_code_execution_view_result", "content": "text", "file_type": "text"}), "text"),
        (result("text_editor_code_execution_tool_result", {
            "type": "text_editor_code_execution_str_replace_result", "lines": ["-a", "+b"]}), "-a\\n+b"),
        (result("tool_search_tool_result", {"type": "tool_search_tool_search_result", "tool_references": [
            {"type": "tool_reference", "tool_name": "look"}, {"type": "tool_reference", "tool_name": "see"}]}),
         "look\\nsee"),
        (result("advisor_tool_result", {"type": "advisor_result", "text": "Think."}), "Think."),
        (result("advisor_tool_result", {"type": "advisor_redacted_result", "encrypted_content": "?"}), ""),
        (result("mcp_tool_result", [text("a"), text("b")]), "a\\n\\nb"),
        (result("mcp_tool_result", "a"), "a"),
        (result("mcp_tool_result", None), ""),
    ],
)  # fmt: skip
def test_results_of_server_tools_become_text(block: dict[str, Any], shown: str) -> None:
    """What can be read is shown; encrypted parts and files are not."""
    call = {**SEARCH, "type": "mcp_tool_use", "server_name": "m"} if block["type"] == "mcp_tool_result" else SEARCH
    assert messages(HI, answer(call, block, text("Ok")), HI)[2] == (
        f'role: ROLE_TOOL content {{ text: "{shown}" }} tool_call_id: "s1"'
    )


def test_failed_result_of_a_remote_tool_is_marked() -> None:
    """A result with `is_error` has the same prefix as the client's."""
    failed = {**result("mcp_tool_result", [text("no")]), "is_error": True}
    assert 'text: "Error: no"' in messages(HI, answer(SEARCH, failed, text("Ok")), HI)[2]


def test_name_of_a_remote_tool_is_made_valid() -> None:
    """Names of remote tools may have characters that names of functions don't have."""
    call = {**SEARCH, "type": "mcp_tool_use", "name": "files/read it", "server_name": "m"}
    assert 'name: "files_read_it"' in messages(HI, answer(call, result("mcp_tool_result", "a")), HI)[1]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
        {"type": "mcp_tool_listing", "mcp_server_name": "m", "tools": []},
        {"type": "container_upload", "file_id": "f"},
        {"type": "compaction", "content": None},
    ],
)
def test_blocks_without_content_are_left_out(block: dict[str, Any]) -> None:
    """An answer with such a block can be sent back unchanged."""
    assert messages(HI, answer(block, text("Ok")), HI)[1] == 'role: ROLE_ASSISTANT content { text: "Ok" }'


def test_summary_replaces_the_messages_before_it() -> None:
    """A conversation that Anthropic's server has compacted begins with the summary, after the system prompt."""
    compacted = answer({"type": "compaction", "content": "They met.", "encrypted_content": "?"}, text("Hello again."))
    assert messages(HI, answer(text("Hello")), HI, compacted, HI, system="Be kind.") == [
        'role: ROLE_SYSTEM content { text: "Be kind." }',
        'role: ROLE_USER content { text: "They met." }',
        'role: ROLE_ASSISTANT content { text: "Hello again." }',
        'role: ROLE_USER content { text: "hi" }',
    ]


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "tool_reference", "tool_name": "look"}, "look"),
        ({"type": "browser_state", "tabs": [{"active": True}]}, '{\\"tabs\\":[{\\"active\\":true}]}'),
    ],
)
def test_result_of_a_client_tool_may_name_tools_and_tabs(block: dict[str, Any], shown: str) -> None:
    """Tools that a client's own search has found are offered anyway; a browser's state is its JSON."""
    called = answer({"type": "tool_use", "id": "c1", "name": "look", "input": {}})
    turn = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [block]}]}
    assert f'content {{ text: "{shown}" }}' in messages(HI, called, turn)[2]


@pytest.mark.parametrize(
    ("turn", "field", "reason"),
    [
        ({"role": "user", "content": [FOUND]}, "messages.1.content.0.type", "is not allowed in a message of this role"),
        ({"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}, "messages.1.content.0.type",
         "'container_upload' is not supported: no programs run on this server; send the file as a document"),
        ({"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "a"}}]},
         "messages.1.content.0.type", "'tool_addition' is not supported: put the tools of this request into tools"),
        ({"role": "system", "content": [{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "a"}}]},
         "messages.1.content.0.type", "'tool_removal' is not supported: put the tools of this request into tools"),
    ],
)  # fmt: skip
def test_others_are_rejected_with_what_to_do(turn: dict[str, Any], field: str, reason: str) -> None:
    """The error names the block."""
    with pytest.raises(Failure) as failed:
        parse(messages=[HI, turn])
    assert (failed.value.field, failed.value.message) == (field, f"{field}: {reason}")


def test_errors_name_the_block_of_the_caller() -> None:
    """Messages that are made from one turn have the paths of its blocks."""
    parsed = parse(messages=[HI, answer(text("a"), SEARCH, FOUND, text("b")), HI])
    for path, caller_name in (
        ("messages[1].tool_calls[0].function.arguments", "messages.1.content.1.arguments"),
        ("messages[2].tool_call_id", "messages.1.content.2.tool_use_id"),
        ("messages[3].content[0].text", "messages.1.content.3"),
        ("messages[4].content[0].text", "messages.2.content"),
    ):
        assert parsed.caller_name(path) == caller_name


SERVERS = [
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 5, "user_location": {"type": "approximate"}},
    {"type": "web_fetch_20260309", "name": "web_fetch", "citations": {"enabled": True}},
    {"type": "code_execution_20260120", "name": "code_execution"},
    {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
    {"type": "mcp_toolset", "mcp_server_name": "m", "default_config": {"enabled": True}},
]


def test_tools_of_the_server_are_left_out_where_there_are_others() -> None:
    """A client that carries over a conversation sends the same tools; errors have the client's positions."""
    parsed = parse(tools=[*SERVERS, TOOL])
    assert parsed.request.tools == parse(tools=[TOOL]).request.tools
    assert parsed.caller_name("tools[0].function.parameters") == "tools.5.input_schema"
    assert parsed.caller_name("tools[0].function.name") == "tools.5.name"


@pytest.mark.parametrize(
    ("tool", "argument"),
    [
        ({"type": "bash_20250124", "name": "bash"}, "command"),
        ({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 10}, "old_str"),
        ({"type": "memory_20250818", "name": "memory", "strict": True}, "new_path"),
    ],
)
def test_known_tools_of_the_client_are_functions(tool: dict[str, Any], argument: str) -> None:
    """They have the parameters that Anthropic documents; calls and results are those of other tools."""
    (made,) = parse(tools=[tool]).request.tools
    schema = json.loads(made.function.parameters)
    assert argument in schema["properties"]
    assert made.function.name == tool["name"]
    assert made.function.strict == tool.get("strict", False)
    assert parse(tools=[tool], tool_choice={"type": "tool", "name": tool["name"]}).request.tool_choice.function_name

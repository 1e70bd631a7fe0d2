"""Conversations of Anthropic's dialect become the contract's messages."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format
from sluice.v1 import content_pb2

from tests.gateway.dialects.anthropic_requests import CALL, CALLED, HI, RESULT, parse, text


def messages(*turns: dict[str, Any], **fields: Any) -> list[str]:
    """Return the contract's messages, one per line."""
    request_messages = parse(messages=list(turns), **fields).request.messages
    return [text_format.MessageToString(message, as_one_line=True, as_utf8=True) for message in request_messages]


def test_consecutive_turns_of_one_role_are_merged() -> None:
    """Callers' text blocks are separated by a blank line, the assistant's are not; leading system blocks are merged."""
    assert messages(
        {"role": "system", "content": "B."},
        HI,
        {"role": "user", "content": [text("you\n"), text("there")]},
        {"role": "assistant", "content": [text("He"), text("llo")]},
        {"role": "assistant", "content": "!"},
        {"role": "system", "content": "C."},
        HI,
        system=[text("A."), {**text(""), "cache_control": {"type": "ephemeral"}}],
    ) == [
        'role: ROLE_SYSTEM content { text: "A.\\n\\n" } content { text: "" } content { text: "B." }',
        'role: ROLE_USER content { text: "hi\\n\\n" } content { text: "you\\n" } content { text: "there" }',
        'role: ROLE_ASSISTANT content { text: "He" } content { text: "llo" } content { text: "!" }',
        'role: ROLE_USER content { text: "C.\\n\\n" } content { text: "hi" }',
    ]


def test_tool_results_become_separate_messages() -> None:
    """Each tool result precedes the user's text; an error is marked, and an absent result is an empty text."""
    failed = {"type": "tool_result", "tool_use_id": "c2", "is_error": True, "content": [text("no"), text("sky")]}
    silent = {"type": "tool_result", "tool_use_id": "c3"}
    turn = {"role": "user", "content": [RESULT, failed, silent, text("Well?")]}
    assert messages(HI, CALLED, turn)[1:] == [
        'role: ROLE_ASSISTANT tool_calls { id: "c1" function { name: "look" arguments: "{\\"x\\":1.0}" } }',
        'role: ROLE_TOOL content { text: "seen" } tool_call_id: "c1"',
        'role: ROLE_TOOL content { text: "Error: no\\n\\n" } content { text: "sky" } tool_call_id: "c2"',
        'role: ROLE_TOOL content { text: "" } tool_call_id: "c3"',
        'role: ROLE_USER content { text: "Well?" }',
    ]


def test_answer_is_a_valid_turn_of_the_next_request() -> None:
    """Thinking goes to templates that accept it, redacted thinking is dropped, and unknown fields are ignored."""
    answer = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "?"},
            {**text("Let me see."), "citations": None, "parsed_output": None},
            {**CALL, "caller": {"type": "direct"}, "input": {"INVALID_JSON": '{"x": 1'}},
        ],
        "id": "msg_1",
    }
    assert messages(HI, answer)[1] == (
        'role: ROLE_ASSISTANT content { text: "Let me see." } '
        'tool_calls { id: "c1" function { name: "look" arguments: "{\\"x\\": 1" } } reasoning: "hm"'
    )
    for empty in ([], [{"type": "thinking", "thinking": "hm"}]):
        assert 'content { text: "" }' in messages(HI, {"role": "assistant", "content": empty}, HI)[1]


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "image", "source": {"type": "url", "url": "https://a/b"}}, 'image_url { url: "https://a/b" }'),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
         'image_url { url: "data:image/png;base64,aGk=" }'),
        ({"type": "image", "source": {"type": "file", "file_id": "f"}}, 'file { file_id: "f" }'),
        ({"type": "document", "title": "t", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
         'text: "t\\nd"'),
        ({"type": "document", "context": "c", "source": {"type": "content", "content": [text("d")]}},
         'text: "c\\nd"'),
        ({"type": "document", "source": {"type": "content", "content": "d"}}, 'text: "d"'),
        ({"type": "document", "title": "t", "source": {"type": "url", "url": "https://a/b.pdf"}},
         'file { url: "https://a/b.pdf" filename: "t" }'),
        ({"type": "document", "source": {"type": "file", "file_id": "f"}}, 'file { file_id: "f" }'),
        ({"type": "search_result", "source": "https://a", "title": "t", "content": [{"type": "text", "text": "d"}]},
         'text: "t\\nhttps://a\\nd"'),
    ],
)  # fmt: skip
def test_blocks(block: dict[str, Any], part: str) -> None:
    """Images and files become parts, and documents become texts, also in tool results."""
    expected = text_format.Parse(part, content_pb2.ContentPart())
    (turns,) = parse(messages=[{"role": "user", "content": [block]}]).request.messages
    assert list(turns.content) == [expected]
    turn = {"role": "user", "content": [{**RESULT, "content": [block]}]}
    assert list(parse(messages=[HI, CALLED, turn]).request.messages[2].content) == [expected]


@pytest.mark.parametrize(
    ("turns", "continues"),
    [([HI], False), ([HI, {"role": "assistant", "content": "I"}], True), ([HI, CALLED], False),
     ([HI, {"role": "assistant", "content": []}], True)],
)  # fmt: skip
def test_last_message_of_the_assistant_is_continued(turns: list[dict[str, Any]], *, continues: bool) -> None:
    """A last message of the assistant is continued unless it is a call, which waits for its result."""
    assert parse(messages=turns).request.continue_final_message == continues

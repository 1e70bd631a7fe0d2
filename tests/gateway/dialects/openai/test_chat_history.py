"""Conversations of other servers, old clients and frameworks become the contract's messages."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format

from gateway.dialects.seam.failure import Failure
from tests.gateway.dialects.openai.test_openai_request import parse

USER: dict[str, Any] = {"role": "user", "content": "hi"}
FUNCTION = {"name": "f", "arguments": "{}"}


def messages(*given: dict[str, Any]) -> list[str]:
    """Return the contract's messages, one per line."""
    request = parse(messages=list(given)).request
    return [text_format.MessageToString(message, as_one_line=True, as_utf8=True) for message in request.messages]


def answer(**fields: Any) -> dict[str, Any]:
    """Return a message of the assistant."""
    return {"role": "assistant", **fields}


def shown(message: dict[str, Any]) -> str:
    """Return the contract's message, which follows one of the user."""
    return messages(USER, message)[1]


def called(*calls: tuple[str, str]) -> str:
    """Return a message of the assistant with calls, each an id and a name."""
    texts = (
        f'tool_calls {{ id: "{call_id}" function {{ name: "{name}" arguments: "{{}}" }} }}' for call_id, name in calls
    )
    return f"role: ROLE_ASSISTANT {' '.join(texts)}"


def test_system_messages_of_a_conversation() -> None:
    """The first ones are one message; a later one is a user's turn, since templates have no other position for it."""
    assert messages(
        {"role": "system", "content": "A."},
        {"role": "developer", "content": [{"type": "text", "text": "B."}, {"type": "text", "text": "C."}]},
        USER,
        {"role": "system", "content": "D."},
        {"role": "developer", "content": "E."},
    ) == [
        'role: ROLE_SYSTEM content { text: "A.\\n\\n" } content { text: "B." } content { text: "C." }',
        'role: ROLE_USER content { text: "hi" }',
        'role: ROLE_USER content { text: "D." }',
        'role: ROLE_USER content { text: "E." }',
    ]


def test_functions_of_old_clients_are_calls_of_tools() -> None:
    """A `function_call` has no id; its result has the role `function`."""
    old = [
        answer(content=None, function_call=FUNCTION),
        {"role": "function", "name": "f", "content": "1"},
        answer(function_call={"name": "g", "arguments": {}}),
        {"role": "function", "name": "g", "content": None},
    ]
    assert messages(USER, *old)[1:] == [
        called(("call_1", "f")),
        'role: ROLE_TOOL content { text: "1" } tool_call_id: "call_1" name: "f"',
        called(("call_2", "g")),
        'role: ROLE_TOOL content { text: "" } tool_call_id: "call_2" name: "g"',
    ]


@pytest.mark.parametrize("no_id", [{}, {"id": ""}, {"id": None}])
def test_calls_without_ids_are_matched_with_their_results(no_id: dict[str, Any]) -> None:
    """Some servers give calls no ids: results then belong to them by name, or by order."""
    calls = [{**no_id, "function": {"name": name, "arguments": "{}"}} for name in ("f", "g", "f")]
    results = [{"role": "tool", "name": "g", "content": "1"}, {"role": "tool", "tool_call_id": "", "content": "2"}]
    converted = messages(USER, answer(tool_calls=calls), *results, {"role": "tool", "name": "f", "content": "3"})
    assert converted[1] == called(("call_1", "f"), ("call_2", "g"), ("call_3", "f"))
    assert [line.partition("tool_call_id: ")[2][:8] for line in converted[2:]] == ['"call_2"', '"call_1"', '"call_3"']


def test_ids_of_clients_are_kept() -> None:
    """Also those of results that come in another order, or for which there is no call."""
    calls = [{"id": name, "function": FUNCTION} for name in ("a", "b")]
    results = [{"role": "tool", "tool_call_id": name, "content": "1"} for name in ("b", "a", "c")]
    converted = messages(USER, answer(tool_calls=calls), *results)
    assert [line.partition("tool_call_id: ")[2] for line in converted[2:]] == ['"b"', '"a"', '"c"']


def test_result_without_call_and_id_is_left_to_the_service() -> None:
    """The service rejects it for its id."""
    assert shown({"role": "tool", "content": "1"}) == 'role: ROLE_TOOL content { text: "1" }'


@pytest.mark.parametrize("content", [None, [], ""])
def test_answer_without_content_is_an_empty_text(content: Any) -> None:
    """An answer that ended during its reasoning has no content; neither has a tool's result of nothing."""
    assert shown(answer(content=content)) == 'role: ROLE_ASSISTANT content { text: "" }'
    assert shown({"role": "tool", "tool_call_id": "a", "content": content}).startswith(
        'role: ROLE_TOOL content { text: "" }'
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}]}, "hm"),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]},
                      {"type": "text", "text": "a"}]}, "hm"),
        ({"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm", "signature": "s"}]},
                      {"type": "text", "text": "a"}]}, "hm"),
        ({"content": [{"type": "reasoning", "text": "hm"}, {"type": "output_text", "text": "a"}]}, "hm"),
        ({"content": [{"type": "reasoning", "text": "no"}, {"type": "text", "text": "a"}], "reasoning_content": "hm"},
         "hm"),
    ],
)  # fmt: skip
def test_reasoning_among_the_content(fields: dict[str, Any], expected: str) -> None:
    """Mistral's API and Databricks have it as parts, and so have frameworks that carry over responses."""
    assert shown(answer(**fields)) == f'role: ROLE_ASSISTANT content {{ text: "a" }} reasoning: "{expected}"'


def test_parts_of_the_responses_api() -> None:
    """Frameworks send parts of one of OpenAI's APIs to the other."""
    user = {"role": "user", "content": [{"type": "input_text", "text": "a"}]}
    assert messages(user, answer(content=[{"type": "output_text", "text": "b", "annotations": []}])) == [
        'role: ROLE_USER content { text: "a" }',
        'role: ROLE_ASSISTANT content { text: "b" }',
    ]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ({"file_data": "data:text/plain;base64,aGk=", "filename": "a.txt"},
         'url: "data:text/plain;base64,aGk=" filename: "a.txt"'),
        ({"file_id": "file-1"}, 'file_id: "file-1"'),
    ],
)  # fmt: skip
def test_file_parts(file: dict[str, Any], expected: str) -> None:
    """They are files of the contract, as `input_file` of responses is."""
    assert messages({"role": "user", "content": [{"type": "file", "file": file}]}) == [
        f"role: ROLE_USER content {{ file {{ {expected} }} }}"
    ]


def test_spoken_answer_is_its_transcript() -> None:
    """An answer with audio that was generated elsewhere has a transcript; content of its own precedes it."""
    audio = {"id": "audio_1", "data": "aGk=", "expires_at": 1, "transcript": "Hello"}
    assert shown(answer(content=None, audio=audio)) == 'role: ROLE_ASSISTANT content { text: "Hello" }'
    assert shown(answer(content="Hi", audio={"id": "audio_1"})) == 'role: ROLE_ASSISTANT content { text: "Hi" }'


@pytest.mark.parametrize(
    ("message", "field", "text"),
    [
        (answer(audio={"id": "audio_1"}), "messages.1.audio.transcript",
         "required, but missing: audio of earlier answers is not stored"),
        ({"role": "user", "content": [{"type": "thinking", "thinking": "hm"}]}, "messages.1.content.0.type",
         "reasoning is only allowed in messages of the assistant"),
        ({"role": "user", "content": [{"type": "file", "file": {}}]}, "messages.1.content.0.file.file_data",
         "required, but missing"),
    ],
)  # fmt: skip
def test_others_are_rejected_with_what_is_missing(message: dict[str, Any], field: str, text: str) -> None:
    """The error names the field."""
    with pytest.raises(Failure) as failed:
        parse(messages=[USER, message])
    assert (failed.value.field, failed.value.message) == (field, f"{field}: {text}")


def test_errors_name_the_messages_of_the_caller() -> None:
    """Positions are those of the request, also where messages or parts have been merged or moved."""
    parts = [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "a"}]
    old = {"role": "assistant", "function_call": FUNCTION}
    parsed = parse(messages=[{"role": "system", "content": "A"}] * 2 + [USER, answer(content=parts), old])
    for path, caller_name in (
        ("messages[0].content[0].text", "messages.0.content"),
        ("messages[0].content[1].text", "messages.1.content"),
        ("messages[1].name", "messages.2.name"),
        ("messages[2].content[0].text", "messages.3.content.1.text"),
        ("messages[3].tool_calls[0].function.name", "messages.4.function_call.name"),
    ):
        assert parsed.caller_name(path) == caller_name

"""Messages and tools on their way to the template."""

from __future__ import annotations

from typing import Any

import pytest
from sluice.v1 import content_pb2, tool_pb2

from service.generation.errors import InvalidRequest, UnsupportedModality
from service.pipeline.conversation import template_messages, template_tools
from service.pipeline.reasoning import KNOWN_MARKERS
from tests.pipeline.fakes import function, message, user

SYSTEM, USER, ASSISTANT, TOOL = (
    content_pb2.ROLE_SYSTEM,
    content_pb2.ROLE_USER,
    content_pb2.ROLE_ASSISTANT,
    content_pb2.ROLE_TOOL,
)


def turns(
    *messages: content_pb2.Message, default: str | None = None, parse_arguments: bool = True
) -> list[dict[str, Any]]:
    return template_messages(
        messages, default_system_prompt=default, markers=KNOWN_MARKERS[0], parse_arguments=parse_arguments
    )


def call(call_id: str, name: str, arguments: str) -> tool_pb2.ToolCall:
    return tool_pb2.ToolCall(id=call_id, function=tool_pb2.FunctionCall(name=name, arguments=arguments))


def test_text_parts_are_joined() -> None:
    """A message's parts are one text, without anything between them."""
    assert turns(message(USER, "a", "", "b ")) == [{"role": "user", "content": "ab "}]


def test_picture_is_refused_by_its_path() -> None:
    """A part that the model can't take is named to the part."""
    picture = content_pb2.ContentPart(image_url=content_pb2.ImageUrl(url="https://x/y.png"))
    asked = message(USER, "look")
    asked.content.append(picture)
    with pytest.raises(UnsupportedModality) as refusal:
        turns(user("hi"), asked)
    assert (refusal.value.field, refusal.value.reason) == ("messages[1].content[1].image_url", "UNSUPPORTED_MODALITY")


@pytest.mark.parametrize(
    ("messages", "contents"),
    [([user("hi")], ["Default.", "hi"]), ([message(SYSTEM, "Own."), user("hi")], ["Own.", "hi"])],
)
def test_system_message_replaces_the_default_prompt(messages: list[content_pb2.Message], contents: list[str]) -> None:
    """The default system prompt stands first, unless the conversation has one of its own."""
    assert [turn["content"] for turn in turns(*messages, default="Default.")] == contents


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('{"a": 1.0, "b": 12345678901234567890}', {"a": 1.0, "b": 12345678901234567890}),
        ("{broken", "{broken"),
        ("[1]", "[1]"),
    ],
)
def test_arguments_are_values_where_the_template_wants_them(written: str, value: Any) -> None:
    """Arguments go to the template as an object, or as they were written if they are none."""
    asked = message(ASSISTANT, tool_calls=[call("1", "f", written)])
    (turn,) = turns(asked)
    assert turn["tool_calls"] == [{"id": "1", "type": "function", "function": {"name": "f", "arguments": value}}]
    assert turn["content"] == ""
    (turn,) = turns(asked, parse_arguments=False)
    assert turn["tool_calls"][0]["function"]["arguments"] == written


def test_tool_message_answers_an_earlier_call() -> None:
    """A result carries its call's id and function; one that answers nothing is refused."""
    asked = message(ASSISTANT, tool_calls=[call("1", "f", "{}")])
    answered = message(TOOL, "42", tool_call_id="1")
    assert turns(asked, answered)[1] == {"role": "tool", "content": "42", "tool_call_id": "1", "name": "f"}
    with pytest.raises(InvalidRequest) as refusal:
        turns(answered, asked)
    assert refusal.value.field == "messages[0].tool_call_id"


@pytest.mark.parametrize(
    ("sent", "reasoning", "content"),
    [
        (message(ASSISTANT, "b", reasoning="a"), "a", "b"),
        (message(ASSISTANT, "<think>\na\n</think>\n\nb"), "a", "b"),
        (message(ASSISTANT, "a</think>b"), "a", "b"),
        (message(ASSISTANT, "b"), None, "b"),
        (message(USER, "<think>a</think>b"), None, "<think>a</think>b"),
    ],
)
def test_earlier_thinking_is_told_apart(sent: content_pb2.Message, reasoning: str | None, content: str) -> None:
    """Thinking that comes back inside an assistant's content is thinking again; a user's text stays what it is."""
    (turn,) = turns(sent)
    assert (turn.get("reasoning_content"), turn["content"]) == (reasoning, content)


def test_tools_have_the_templates_form() -> None:
    """Functions carry name, description and schema; without parameters the schema is that of none."""
    tools = [
        function("f", '{"type": "object", "properties": {"a": {"type": "integer"}}}', description="Does."),
        function("g"),
    ]
    first, second = template_tools(tools)
    assert first == {
        "type": "function",
        "function": {
            "name": "f",
            "description": "Does.",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
        },
    }
    assert second["function"]["parameters"] == {"type": "object", "properties": {}}

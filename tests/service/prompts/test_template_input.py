"""Messages and tools in the templates' form."""

from __future__ import annotations

from typing import Any

import pytest

from service.generation.errors import InvalidRequest, UnsupportedModality
from service.generation.formats.constraint import ReasoningMarkers
from service.generation.prompts.conversation import Function, FunctionCall, ImagePart, Message, Role, TextPart
from service.prompts.templates.call_form import CallForm
from service.prompts.templates.template_input import template_messages, template_tools
from tests.service.prompts.fakes import message, user

SYSTEM, USER, ASSISTANT, TOOL = Role
MARKERS = ReasoningMarkers("<think>", "</think>")


def turns(*messages: Message, default: str | None = None, form: CallForm = CallForm()) -> list[dict[str, Any]]:  # noqa: B008  immutable
    return template_messages(messages, default_system_prompt=default, markers=MARKERS, form=form)


def test_text_parts_are_joined() -> None:
    """A message's parts are joined to one text without separators."""
    assert turns(message(USER, "a", "", "b ")) == [{"role": "user", "content": "ab "}]


def test_picture_is_rejected_by_its_path() -> None:
    """The error for an unsupported part contains the part's path."""
    path = "messages[1].content[1].image_url"
    turn_before = Message(USER, (TextPart("look"), ImagePart("https://x/y.png", path)))
    with pytest.raises(UnsupportedModality) as caught:
        turns(user("hi"), turn_before)
    assert caught.value.field == path


@pytest.mark.parametrize(
    ("messages", "contents"),
    [([user("hi")], ["Default.", "hi"]), ([message(SYSTEM, "Own."), user("hi")], ["Own.", "hi"])],
)
def test_system_message_replaces_the_default_prompt(messages: list[Message], contents: list[str]) -> None:
    """The default system prompt comes first, unless the conversation has its own."""
    assert [turn["content"] for turn in turns(*messages, default="Default.")] == contents


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('{"a": 1.0, "b": 12345678901234567890}', {"a": 1.0, "b": 12345678901234567890}),
        ("{broken", "{broken"),
        ("[1]", "[1]"),
    ],
)
def test_arguments_are_passed_as_an_object_or_text(written: str, value: Any) -> None:
    """Arguments are passed as an object, or as text if they are not an object."""
    turn_before = message(ASSISTANT, tool_calls=(FunctionCall("1", "f", written),))
    (turn,) = turns(turn_before)
    assert turn["tool_calls"] == [{"id": "1", "type": "function", "function": {"name": "f", "arguments": value}}]
    assert turn["content"] == ""
    (turn,) = turns(turn_before, form=CallForm(parses_arguments=False))
    assert turn["tool_calls"][0]["function"]["arguments"] == written


def test_tool_result_needs_an_earlier_call() -> None:
    """A result has its call's id and function; a result without a call is rejected."""
    turn_before = message(ASSISTANT, tool_calls=(FunctionCall("1", "f", "{}"),))
    answered = message(TOOL, "42", tool_call_id="1", tool_call_field="messages[0].tool_call_id")
    assert turns(turn_before, answered)[1] == {"role": "tool", "content": "42", "tool_call_id": "1", "name": "f"}
    with pytest.raises(InvalidRequest) as caught:
        turns(answered, turn_before)
    assert caught.value.field == "messages[0].tool_call_id"


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
def test_earlier_reasoning_is_separated(sent: Message, reasoning: str | None, content: str) -> None:
    """Reasoning inside an assistant's content becomes reasoning again; a user's text is unchanged."""
    (turn,) = turns(sent)
    assert (turn.get("reasoning_content"), turn["content"]) == (reasoning, content)
    assert turn.get("reasoning") == reasoning


def test_tools_have_the_templates_form() -> None:
    """Functions have name, description and schema; without parameters the schema allows none."""
    tools = [
        Function("f", "Does.", '{"type": "object", "properties": {"a": {"type": "integer"}}}'),
        Function("g"),
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


@pytest.mark.parametrize("parameters", ["[]", '{"type": "string"}', "{"])
def test_parameters_other_than_an_object_schema_are_rejected(parameters: str) -> None:
    """The parameters of a function must be the schema of an object; the error names the tool."""
    with pytest.raises(InvalidRequest) as caught:
        template_tools([Function("f", parameters=parameters, field="tools[3].function")])
    assert caught.value.field == "tools[3].function.parameters"

"""Messages and tools on their way to the template."""

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
    """A message's parts are one text, without anything between them."""
    assert turns(message(USER, "a", "", "b ")) == [{"role": "user", "content": "ab "}]


def test_picture_is_refused_by_its_path() -> None:
    """A part that the model can't take is named to the part."""
    path = "messages[1].content[1].image_url"
    asked = Message(USER, (TextPart("look"), ImagePart("https://x/y.png", path)))
    with pytest.raises(UnsupportedModality) as refusal:
        turns(user("hi"), asked)
    assert refusal.value.field == path


@pytest.mark.parametrize(
    ("messages", "contents"),
    [([user("hi")], ["Default.", "hi"]), ([message(SYSTEM, "Own."), user("hi")], ["Own.", "hi"])],
)
def test_system_message_replaces_the_default_prompt(messages: list[Message], contents: list[str]) -> None:
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
    asked = message(ASSISTANT, tool_calls=(FunctionCall("1", "f", written),))
    (turn,) = turns(asked)
    assert turn["tool_calls"] == [{"id": "1", "type": "function", "function": {"name": "f", "arguments": value}}]
    assert turn["content"] == ""
    (turn,) = turns(asked, form=CallForm(parses_arguments=False))
    assert turn["tool_calls"][0]["function"]["arguments"] == written


def test_tool_message_answers_an_earlier_call() -> None:
    """A result carries its call's id and function; one that answers nothing is refused."""
    asked = message(ASSISTANT, tool_calls=(FunctionCall("1", "f", "{}"),))
    answered = message(TOOL, "42", tool_call_id="1", tool_call_field="messages[0].tool_call_id")
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
def test_earlier_reasoning_is_told_apart(sent: Message, reasoning: str | None, content: str) -> None:
    """Reasoning that comes back inside an assistant's content is reasoning again; a user's text stays what it is."""
    (turn,) = turns(sent)
    assert (turn.get("reasoning_content"), turn["content"]) == (reasoning, content)
    assert turn.get("reasoning") == reasoning


def test_tools_have_the_templates_form() -> None:
    """Functions carry name, description and schema; without parameters the schema is that of none."""
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
def test_parameters_that_are_no_object_schema_are_refused(parameters: str) -> None:
    """A function's parameters are a schema of an object; the error names the tool."""
    with pytest.raises(InvalidRequest) as refusal:
        template_tools([Function("f", parameters=parameters, field="tools[3].function")])
    assert refusal.value.field == "tools[3].function.parameters"

"""Custom tools of chats, and choices among allowed tools: the function that a model is offered, and its calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from sluice.v1 import chat_pb2, content_pb2, tool_pb2

from gateway.dialects.openai.tokens import parse_tokenize
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from tests.gateway.dialects.openai.test_openai_request import parse

FUNCTION: dict[str, Any] = {"type": "function", "function": {"name": "f"}}
PATCH: dict[str, Any] = {"type": "custom", "custom": {"name": "patch", "description": "Edits."}}
REGEX = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a|b"}}
CHOSEN_PATCH = {"type": "custom", "custom": {"name": "patch"}}
CALL: dict[str, Any] = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "a\n"}}


def with_format(given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "custom", "custom": {"name": "patch", "format": given}}


def test_tool_is_a_function_of_one_text() -> None:
    """The model is offered a function with the text `input`; a pattern constrains it."""
    function, plain, constrained = (
        tool.function for tool in parse(tools=[FUNCTION, PATCH, with_format(REGEX)]).request.tools
    )
    assert (function.custom, plain.custom, plain.name, plain.description) == (False, True, "patch", "Edits.")
    assert json.loads(plain.parameters)["properties"] == {"input": {"type": "string"}}
    assert json.loads(constrained.parameters)["properties"]["input"]["pattern"] == "^(?:a|b)$"


def test_choice_of_a_tool() -> None:
    """A custom tool can be demanded by its name; errors have the caller's field."""
    parsed = parse(tools=[PATCH], tool_choice={"type": "custom", "custom": {"name": "patch"}})
    assert parsed.request.tool_choice.function_name == "patch"
    assert parsed.caller_name("tool_choice.function_name") == "tool_choice.custom.name"


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("tools[0].function.name", "tools.0.function.name"),
        ("tools[1].function.parameters", "tools.1.custom.format.grammar.definition"),
        ("tools[1].function.description", "tools.1.custom.description"),
        ("messages[0].tool_calls[0].function.name", "messages.0.tool_calls.0.custom.name"),
        ("messages[0].tool_calls[0].function.arguments", "messages.0.tool_calls.0.custom.input"),
        ("messages[0].tool_calls[0].id", "messages.0.tool_calls.0.id"),
    ],
)
def test_errors_name_the_callers_fields(field: str, name: str) -> None:
    """What the service rejects in a function is the caller's custom tool."""
    parsed = parse(tools=[FUNCTION, with_format(REGEX)], messages=[{"role": "assistant", "tool_calls": [CALL]}])
    assert parsed.caller_name(field) == name


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_only_allowed_tools_are_offered(mode: str) -> None:
    """A choice among tools leaves the others out; errors count the tools of the request."""
    other = {"type": "function", "function": {"name": "g"}}
    allowed = {"mode": mode, "tools": [CHOSEN_PATCH, {"type": "function", "function": {"name": "g"}}]}
    parsed = parse(tools=[FUNCTION, PATCH, other], tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
    assert [tool.function.name for tool in parsed.request.tools] == ["patch", "g"]
    assert parsed.request.tool_choice.mode == tool_pb2.ToolChoiceMode.Value(f"TOOL_CHOICE_MODE_{mode.upper()}")
    assert parsed.caller_name("tools[1].function.name") == "tools.2.function.name"


def test_allowed_tools_must_be_offered() -> None:
    """The error names the entry of the choice."""
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [CHOSEN_PATCH]}}
    with pytest.raises(Failure) as raised:
        parse(tools=[FUNCTION], tool_choice=choice)
    assert raised.value.field == "tool_choice.allowed_tools.tools.0"


def test_calls_can_be_sent_back() -> None:
    """An earlier call is one of the function; the tool's message has its result."""
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "Done."},
    ]
    (call,) = parse(messages=messages, tools=[PATCH]).request.messages[1].tool_calls
    assert (call.id, call.function.name, json.loads(call.function.arguments)) == ("c", "patch", {"input": "a\n"})


@pytest.mark.parametrize(
    ("call", "field"),
    [({"id": "c", "type": "custom"}, "custom"), ({"id": "c"}, "function"), ({"id": "c", "custom": {}}, "function")],
)
def test_calls_without_their_field_are_named(call: dict[str, Any], field: str) -> None:
    """The type of a call says which field it needs."""
    with pytest.raises(Failure) as raised:
        parse(messages=[{"role": "assistant", "tool_calls": [call]}])
    assert raised.value.field == f"messages.0.tool_calls.0.{field}"


def call_of(name: str, arguments: str) -> tool_pb2.ToolCall:
    return tool_pb2.ToolCall(id="c", function=tool_pb2.FunctionCall(name=name, arguments=arguments))


def test_whole_answer_has_the_input() -> None:
    """The call of a custom tool has its text, that of a function its arguments; OpenAI's types accept both."""
    message = content_pb2.Message(role=content_pb2.ROLE_ASSISTANT)
    message.tool_calls.extend([call_of("patch", '{"input": "a\\n"}'), call_of("f", "{}")])
    choice = chat_pb2.ChatChoice(message=message, finish_reason=chat_pb2.FINISH_REASON_TOOL_CALLS)
    whole = json.loads(parse(tools=[PATCH, FUNCTION]).encoder.whole(chat_pb2.ChatResponse(id="1", choices=[choice])))
    custom, function = whole["choices"][0]["message"]["tool_calls"]
    assert custom == CALL
    assert function == {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    ChatCompletion.model_validate(whole, strict=True)


def test_streamed_input_is_text() -> None:
    """The first delta of a call has its name, all have text, and OpenAI's helper joins them."""
    encoder = parse(tools=[PATCH, FUNCTION], stream=True).encoder
    deltas = [
        chat_pb2.ToolCallDelta(id="c", name="patch"),
        chat_pb2.ToolCallDelta(arguments='{"input": "a'),
        chat_pb2.ToolCallDelta(arguments='\\n"}'),
        chat_pb2.ToolCallDelta(tool_call_index=1, id="d", name="f", arguments="{}"),
    ]
    events = [
        chat_pb2.StreamChatResponse(started=chat_pb2.ChatStarted(id="1", model="m")),
        *(chat_pb2.StreamChatResponse(tool_call_delta=each) for each in deltas),
        chat_pb2.StreamChatResponse(
            choice_finished=chat_pb2.ChoiceFinished(finish_reason=chat_pb2.FINISH_REASON_TOOL_CALLS)
        ),
    ]
    sent = b"".join(map(encoder.chunk, events)).decode()
    chunks = [json.loads(line.removeprefix("data: ")) for line in sent.splitlines() if line]
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert calls == [
        {"index": 0, "id": "c", "type": "custom", "custom": {"name": "patch", "input": ""}},
        {"index": 0, "custom": {"input": "a"}},
        {"index": 0, "custom": {"input": "\n"}},
        {"index": 1, "id": "d", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    ]
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(ChatCompletionChunk.construct(**chunk))


def test_tokenized_prompts_have_custom_tools() -> None:
    """`/tokenize` counts the same tools as a chat has."""
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": [PATCH]}
    request: Any = parse_tokenize(HttpRequest(json.dumps(body).encode())).request
    assert request.chat.tools == parse(tools=[PATCH]).request.tools

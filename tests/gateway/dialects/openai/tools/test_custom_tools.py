"""Custom tools of responses: offered as functions of one text, and answered in OpenAI's own items and events."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from google.protobuf import json_format
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from sluice.v1 import response_event_pb2, response_item_pb2, response_pb2, stored_response_pb2, tool_pb2

from gateway.dialects.openai_family.responses.response_object import ResponseObject
from gateway.dialects.openai_family.responses.stored import to_input_item
from gateway.dialects.seam.failure import Failure, Reason
from tests.gateway.dialects.openai.response_requests import TOOL, parse

PATCH: dict[str, Any] = {"type": "custom", "name": "patch", "description": "Edits."}
LARK = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}
REGEX = {"type": "grammar", "syntax": "regex", "definition": "a|b"}
CALL = {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": 'a\n"b"'}
OUTPUT = {"type": "custom_tool_call_output", "call_id": "c", "output": "Done."}
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def function_of(tool: dict[str, Any]) -> Any:
    """Return the function that a tool becomes."""
    return parse(tools=[tool]).request.tools[0].function


def call_item(name: str = "patch", arguments: str = '{"input": "a\\nb"}') -> response_item_pb2.OutputItem:
    """Return the service's item for a call."""
    call = response_item_pb2.FunctionCallItem(call_id="c", name=name, arguments=arguments, custom=True)
    completed = response_item_pb2.RESPONSE_STATUS_COMPLETED
    return response_item_pb2.OutputItem(id="ctc_1", status=completed, function_call=call)


def response_with(*items: response_item_pb2.OutputItem) -> response_item_pb2.Response:
    return response_item_pb2.Response(status=response_item_pb2.RESPONSE_STATUS_COMPLETED, output=items)


def streamed(encoder: Any, *events: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the data of the caller's events."""
    sent = [json_format.ParseDict(event, response_event_pb2.StreamResponseResponse()) for event in events]
    return [json.loads(encoder.chunk(each).split(b"data: ")[1]) for each in sent]


def test_tool_is_a_function_of_one_text() -> None:
    """The model is offered a function with the required text `input`, which is marked as a custom tool."""
    function = function_of(PATCH)
    assert (function.name, function.description, function.custom) == ("patch", "Edits.", True)
    assert json.loads(function.parameters) == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    assert not function.HasField("strict")
    assert function_of(PATCH | {"format": {"type": "text"}}) == function


@pytest.mark.parametrize("given", [REGEX, {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a|b"}}])
def test_regular_expression_constrains_the_text(given: dict[str, Any]) -> None:
    """The whole text must match it, and a request whose expression can't be enforced is to be rejected."""
    function = function_of(PATCH | {"format": given})
    assert json.loads(function.parameters)["properties"]["input"] == {"type": "string", "pattern": "^(?:a|b)$"}
    assert function.strict


def test_lark_grammar_is_part_of_the_description() -> None:
    """It can't be enforced within a call."""
    function = function_of(PATCH | {"format": LARK})
    assert function.description == 'Edits.\n\nThe input must match this Lark grammar:\n\nstart: "a"'
    assert not function.strict


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"type": "grammar"}, "tools.0.format.syntax"),
        ({"type": "grammar", "syntax": "lark"}, "tools.0.format.definition"),
        (LARK | {"grammar": {"syntax": "lark", "definition": "x"}}, "tools.0.format"),
        (LARK | {"syntax": "gbnf"}, "tools.0.format.syntax"),
        ({"type": "json"}, "tools.0.format.type"),
    ],
)
def test_wrong_formats_are_named(given: dict[str, Any], field: str) -> None:
    """The error has the caller's field."""
    with pytest.raises(Failure) as raised:
        parse(tools=[PATCH | {"format": given}])
    assert raised.value.field == field


def test_errors_name_the_fields_of_the_tool() -> None:
    """What the service rejects in the function is the caller's definition."""
    caller_name = parse(tools=[TOOL, PATCH | {"format": REGEX}]).caller_name
    assert caller_name("tools[1].function.parameters") == "tools.1.format.definition"
    assert caller_name("tools[1].function.name") == "tools.1.name"
    inside = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a"}}
    assert parse(tools=[PATCH | {"format": inside}]).caller_name("tools[0].function.parameters.x") == (
        "tools.0.format.grammar.definition"
    )


def test_choice_of_a_tool() -> None:
    """A custom tool can be demanded by its name, and the answer repeats the choice."""
    parsed = parse(tools=[PATCH], tool_choice={"type": "custom", "name": "patch"})
    assert parsed.request.tool_choice.function_name == "patch"
    whole = json.loads(parsed.encoder.whole(response_pb2.CreateResponseResponse(response=response_with())))
    assert whole["tool_choice"] == {"type": "custom", "name": "patch"}


@pytest.mark.parametrize("stored", [False, True])
def test_calls_are_custom_tool_calls(*, stored: bool) -> None:
    """The item has the input as text, also in a stored response; OpenAI's types accept it, and the echoed tools."""
    tools = [PATCH | {"format": LARK}, {"type": "namespace", "name": "files", "description": "", "tools": [PATCH]}]
    parsed = parse(tools=tools, store=True)
    response = response_with(call_item(), call_item("files__patch"))
    if stored:
        whole = ResponseObject.from_client_data(parsed.request.client_data).write(response)
        whole = orjson.loads(orjson.dumps(whole))
    else:
        whole = json.loads(parsed.encoder.whole(response_pb2.CreateResponseResponse(response=response)))
    call, of_namespace = whole["output"]
    shared = {"id": "ctc_1", "type": "custom_tool_call", "status": "completed", "call_id": "c"}
    assert call == shared | {"name": "patch", "input": "a\nb"}
    assert of_namespace == call | {"namespace": "files"}
    assert whole["tools"][0] == tools[0]
    assert whole["tools"][1]["tools"] == [PATCH | {"format": {"type": "text"}}]
    Response.model_validate(whole, strict=True)


def test_streamed_input_is_text() -> None:
    """Each event of arguments is one of the input, so that the numbers of events rise by one."""
    pieces = ['{"in', 'put": "a', "\\", "nb", '"}']
    ids = {"item_id": "ctc_1", "output_index": 0, "custom": True}
    begun, ended = (json_format.MessageToDict(each) for each in (call_item(arguments=""), call_item()))
    events: list[dict[str, Any]] = [
        {"output_item_added": {"item": begun}},
        *({"function_call_arguments_delta": {**ids, "delta": piece}} for piece in pieces),
        {"function_call_arguments_done": {**ids, "arguments": "".join(pieces)}},
        {"output_item_done": {"item": ended}},
    ]
    added, *deltas, done, item_done = streamed(parse(tools=[PATCH], stream=True).encoder, *events)
    assert (added["item"]["type"], added["item"]["input"]) == ("custom_tool_call", "")
    assert [each["delta"] for each in deltas] == ["", "a", "", "\nb", ""]
    assert {each["type"] for each in deltas} == {"response.custom_tool_call_input.delta"}
    assert (done["type"], done["input"]) == ("response.custom_tool_call_input.done", "a\nb")
    assert item_done["item"]["input"] == "a\nb"
    for event in (added, *deltas, done, item_done):
        EVENT.validate_python(event, strict=True)


def test_stream_that_begins_within_a_call() -> None:
    """Its deltas have no text, since the beginning is unknown; the end has the whole input."""
    ids = {"item_id": "ctc_1", "output_index": 0, "custom": True}
    delta, done = streamed(
        parse(stream=True).encoder,
        {"function_call_arguments_delta": {**ids, "delta": 'b"}'}},
        {"function_call_arguments_done": {**ids, "arguments": '{"input": "ab"}'}},
    )
    assert (delta["type"], delta["delta"]) == ("response.custom_tool_call_input.delta", "")
    assert done["input"] == "ab"


def test_calls_and_outputs_can_be_sent_back() -> None:
    """They are calls and outputs of the function, and stored ones are listed as they were sent."""
    parts = [{"type": "input_text", "text": "Done."}]
    items = parse(input=[CALL, OUTPUT, OUTPUT | {"output": parts}], tools=[PATCH]).request.input
    call = items[0].function_call
    assert (call.call_id, call.name, json.loads(call.arguments)) == ("c", "patch", {"input": CALL["input"]})
    assert [each.function_call_output.output for each in items[1:]] == ["Done.", "Done."]
    listed = [to_input_item(stored_response_pb2.StoredInputItem(id="i", item=item)) for item in items[:2]]
    assert listed == [each | {"id": "i", "status": "completed"} for each in (CALL, OUTPUT)]


@pytest.mark.parametrize("missing", ["call_id", "name", "input"])
def test_incomplete_calls_are_named(missing: str) -> None:
    """The error has the missing field."""
    with pytest.raises(Failure) as raised:
        parse(input=[{key: value for key, value in CALL.items() if key != missing}])
    assert (raised.value.field, raised.value.reason) == (f"input.0.{missing}", Reason.MISSING_FIELD)


def test_errors_name_the_input_of_a_call() -> None:
    """The contract's arguments are the caller's input."""
    assert parse(input=[CALL]).caller_name("input[0].function_call.arguments") == "input.0.input"


ALLOWED: list[dict[str, Any]] = [
    {"type": "custom", "name": "patch"},
    {"type": "function", "name": "f", "namespace": "tasks"},
    {"type": "mcp", "server_label": "files"},
]
OFFERED = [TOOL, {"type": "namespace", "name": "tasks", "description": "", "tools": [TOOL]}, PATCH]


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_only_allowed_tools_are_offered(mode: str) -> None:
    """A choice among tools leaves the others out; the answer has all tools and the choice."""
    parsed = parse(tools=OFFERED, tool_choice={"type": "allowed_tools", "mode": mode, "tools": ALLOWED})
    assert [tool.function.name for tool in parsed.request.tools] == ["tasks__f", "patch"]
    assert parsed.request.tool_choice.mode == tool_pb2.ToolChoiceMode.Value(f"TOOL_CHOICE_MODE_{mode.upper()}")
    assert parsed.caller_name("tools[1].function.name") == "tools.2.name"
    whole = json.loads(parsed.encoder.whole(response_pb2.CreateResponseResponse(response=response_with())))
    assert len(whole["tools"]) == 3
    choice = whole["tool_choice"]
    assert (choice["type"], choice["mode"], choice["tools"][:2]) == ("allowed_tools", mode, ALLOWED[:2])
    Response.model_validate(whole, strict=True)


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        ({"mode": "auto", "tools": [{"type": "function", "name": "g"}]}, "tool_choice.tools.0"),
        ({"mode": "auto"}, "tool_choice.tools"),
        ({"tools": ALLOWED}, "tool_choice.mode"),
        ({"mode": "none", "tools": ALLOWED}, "tool_choice.mode"),
    ],
)
def test_wrong_choices_among_tools_are_named(choice: dict[str, Any], field: str) -> None:
    """The error has the caller's field."""
    with pytest.raises(Failure) as raised:
        parse(tools=OFFERED, tool_choice={"type": "allowed_tools", **choice})
    assert raised.value.field == field

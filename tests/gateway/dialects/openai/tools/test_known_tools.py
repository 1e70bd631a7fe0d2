"""Tools of OpenAI's API that the client runs: offered as functions, and answered in OpenAI's own items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from google.protobuf import json_format
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from sluice.v1 import response_event_pb2, response_item_pb2, response_pb2, stored_response_pb2, tool_pb2

from gateway.dialects.openai_family.responses.item import ResponseItem, to_items
from gateway.dialects.openai_family.responses.known_tool import KINDS
from gateway.dialects.openai_family.responses.response_object import ResponseObject
from gateway.dialects.openai_family.responses.stored import to_input_item
from gateway.dialects.seam.failure import Failure, Reason
from tests.gateway.dialects.openai.response_requests import TOOL, parse

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
SHELL = {"type": "shell", "environment": {"type": "local"}}
PATCH = {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b"}
ARGUMENTS: dict[str, tuple[str, dict[str, Any]]] = {  # of a call, and the fields of its item
    "local_shell": (
        '{"command": ["ls", "-l"], "timeout_ms": 5}',
        {"action": {"type": "exec", "command": ["ls", "-l"], "env": {}, "timeout_ms": 5}},
    ),
    "shell": (
        '{"commands": ["ls"]}',
        {
            "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None},
            "environment": {"type": "local"},
        },
    ),
    "apply_patch": (json.dumps(PATCH), {"operation": PATCH}),
}
PREFIXES = {"local_shell": "lsh", "shell": "sh", "apply_patch": "apc"}
OUTPUTS: dict[str, dict[str, Any]] = {
    "local_shell": {"output": "a\nb"},
    "shell": {"output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
    "apply_patch": {"status": "failed", "output": "no such file"},
}


def call_item(kind: str, arguments: str | None = None) -> response_item_pb2.OutputItem:
    """Return the service's item for a call."""
    given = ARGUMENTS[kind][0] if arguments is None else arguments
    call = response_item_pb2.FunctionCallItem(call_id="c", name=kind, arguments=given, known_tool=KINDS[kind])
    completed = response_item_pb2.RESPONSE_STATUS_COMPLETED
    return response_item_pb2.OutputItem(id=f"{PREFIXES[kind]}_r_0", status=completed, function_call=call)


def answered(kind: str, *items: response_item_pb2.OutputItem, tools: Any = None) -> dict[str, Any]:
    """Return the answer with these items, read again from what is stored of its request."""
    parsed = parse(tools=tools or [{"type": kind}], store=True)
    status = response_item_pb2.RESPONSE_STATUS_COMPLETED
    response = response_item_pb2.Response(status=status, output=items)
    whole: dict[str, Any] = json.loads(parsed.encoder.whole(response_pb2.CreateResponseResponse(response=response)))
    stored = ResponseObject.from_client_data(parsed.request.client_data).write(response)
    assert orjson.loads(orjson.dumps(stored)) == whole
    return whole


@pytest.mark.parametrize("kind", list(KINDS))
def test_tool_is_a_function_held_to_its_schema(kind: str) -> None:
    """The model is offered a function of the tool's name, whose arguments must match, since the client runs them."""
    (tool,) = parse(tools=[{"type": kind}]).request.tools
    function = tool.function
    assert (function.name, function.known_tool, function.strict) == (kind, KINDS[kind], True)
    schema = json.loads(function.parameters)
    assert set(json.loads(ARGUMENTS[kind][0])) <= set(schema["properties"])
    assert not schema["additionalProperties"]


@pytest.mark.parametrize("kind", list(KINDS))
def test_calls_have_items_of_their_own(kind: str) -> None:
    """OpenAI's types accept the answer, stored or not, and the echoed tool."""
    whole = answered(kind, call_item(kind))
    fields = {"id": f"{PREFIXES[kind]}_r_0", "type": f"{kind}_call", "status": "completed", "call_id": "c"}
    assert whole["output"] == [fields | ARGUMENTS[kind][1]]
    assert whole["tools"] == [SHELL if kind == "shell" else {"type": kind}]
    Response.model_validate(whole, strict=True)


def test_deletion_has_no_diff() -> None:
    """The schema demands one of every call, which is left out of the item."""
    arguments = json.dumps({"type": "delete_file", "path": "a", "diff": ""})
    (call,) = answered("apply_patch", call_item("apply_patch", arguments))["output"]
    assert call["operation"] == {"type": "delete_file", "path": "a"}


@pytest.mark.parametrize("kind", list(KINDS))
def test_call_that_was_cut_off_is_a_function_call(kind: str) -> None:
    """Its arguments are no action that a client may run, even if they are valid: the end of a text may be missing."""
    for arguments, status in (
        ('{"comm', response_item_pb2.RESPONSE_STATUS_COMPLETED),
        (ARGUMENTS[kind][0], response_item_pb2.RESPONSE_STATUS_INCOMPLETE),
    ):
        item = call_item(kind, arguments)
        item.status = status
        (call,) = answered(kind, item)["output"]
        assert (call["type"], call["name"], call["arguments"]) == ("function_call", kind, arguments)


@pytest.mark.parametrize("kind", list(KINDS))
def test_streamed_call_begins_with_its_action(kind: str) -> None:
    """OpenAI's API has no events of its arguments: the item is added when it is complete."""
    arguments, fields = ARGUMENTS[kind]
    ids = {"item_id": f"{PREFIXES[kind]}_r_0", "output_index": 1}
    item = json_format.MessageToDict(call_item(kind, ""))
    events: list[dict[str, Any]] = [
        {"output_item_added": {"output_index": 1, "item": {**item, "status": "RESPONSE_STATUS_IN_PROGRESS"}}},
        {"function_call_arguments_delta": {**ids, "delta": arguments[:9]}},
        {"function_call_arguments_delta": {**ids, "delta": arguments[9:]}},
        {"function_call_arguments_done": {**ids, "arguments": arguments}},
        {"output_item_done": {"output_index": 1, "item": json_format.MessageToDict(call_item(kind))}},
    ]
    sent = [
        json_format.ParseDict({**event, "sequence_number": number}, response_event_pb2.StreamResponseResponse())
        for number, event in enumerate(events)
    ]
    encoder: Any = parse(tools=[{"type": kind}], stream=True).encoder
    chunks = [encoder.chunk(each) for each in sent]
    assert chunks[:4] == [b"", b"", b"", b""]
    added, done = (json.loads(each.split(b"data: ")[1]) for each in chunks[4].strip().split(b"\n\n"))
    assert [added["type"], done["type"]] == ["response.output_item.added", "response.output_item.done"]
    assert [added["sequence_number"], done["sequence_number"]] == [3, 4]
    assert (
        done["item"] == {"id": ids["item_id"], "type": f"{kind}_call", "status": "completed", "call_id": "c"} | fields
    )
    assert added["item"] == done["item"] | {"status": "in_progress"}
    for event in (added, done):
        EVENT.validate_python(event, strict=True)
    later: Any = parse(tools=[{"type": kind}], stream=True).encoder  # of a stream that begins within the call
    assert [later.chunk(each) for each in sent[1:4]] == [b"", b"", b""]
    assert json.loads(later.chunk(sent[4]).split(b"data: ")[1])["item"] == done["item"]


@pytest.mark.parametrize("kind", list(KINDS))
def test_calls_and_outputs_can_be_sent_back(kind: str) -> None:
    """They are calls and outputs of the function, and stored ones are listed as they were sent."""
    call = {"type": f"{kind}_call", "call_id": "c", **ARGUMENTS[kind][1]}
    output = {"type": f"{kind}_call_output", "call_id": "c", **OUTPUTS[kind]}
    items = parse(input=[call, output], tools=[{"type": kind}]).request.input
    assert (items[0].function_call.name, items[0].function_call.known_tool) == (kind, KINDS[kind])
    assert json.loads(items[0].function_call.arguments) == json.loads(ARGUMENTS[kind][0])
    assert items[1].function_call_output.call_id == "c"
    listed = [to_input_item(stored_response_pb2.StoredInputItem(id="i", item=item)) for item in items]
    assert listed == [{"id": "i", "status": "completed"} | each for each in (call, output)]


@pytest.mark.parametrize("kind", ["shell", "apply_patch"])
@pytest.mark.parametrize("output", ["no JSON", "{}", "[1]", '{"status": "unknown"}', ""])
def test_results_of_another_form_are_those_of_a_function(kind: str, output: str) -> None:
    """Clients of gRPC may store any text as a result."""
    result = response_item_pb2.FunctionCallOutput(call_id="c", output=output, known_tool=KINDS[kind])
    item = stored_response_pb2.StoredInputItem(id="i", item=response_item_pb2.InputItem(function_call_output=result))
    expected = {"type": "function_call_output", "call_id": "c", "output": output}
    assert to_input_item(item) == {"id": "i", "status": "completed", **expected}


def test_output_of_a_local_shell_names_its_call_by_either_id() -> None:
    """OpenAI's type has `id` only, its clients send `call_id`."""
    call = {"type": "local_shell_call", "id": "lsh_1", "call_id": "c", **ARGUMENTS["local_shell"][1]}
    for name in ({"call_id": "c"}, {"id": "lsh_1"}, {"id": "c"}):
        output = {"type": "local_shell_call_output", "output": "a", **name}
        assert parse(input=[call, output]).request.input[1].function_call_output.call_id == "c"


class CountedItems(list[ResponseItem]):
    """Items that count how often one is read."""

    num_read = 0

    def __iter__(self) -> Iterator[ResponseItem]:
        for item in super().__iter__():
            self.num_read += 1
            yield item

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.num_read += len(found) if isinstance(index, slice) else 1
        return found


def test_calls_of_results_are_looked_up_once() -> None:
    """The work for a request with many results grows with their number, not with its square."""
    items = CountedItems([ResponseItem(type="local_shell_call_output", id=f"lsh_{i}", output="a") for i in range(100)])
    assert len(to_items(items)) == 100
    assert items.num_read == 200


@pytest.mark.parametrize("kind", list(KINDS))
def test_choice_of_a_tool(kind: str) -> None:
    """A tool can be demanded by its type, alone or among those allowed."""
    choices: list[dict[str, Any]] = [
        {"type": kind},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": kind}]},
    ]
    named, allowed = (parse(tools=[TOOL, {"type": kind}], tool_choice=each) for each in choices)
    assert named.request.tool_choice.function_name == kind
    assert [each.function.name for each in allowed.request.tools] == [kind]
    assert allowed.request.tool_choice.mode == tool_pb2.TOOL_CHOICE_MODE_REQUIRED
    status = response_item_pb2.RESPONSE_STATUS_COMPLETED
    answer = response_pb2.CreateResponseResponse(response=response_item_pb2.Response(status=status))
    whole = json.loads(named.encoder.whole(answer))
    assert whole["tool_choice"] == {"type": kind}


def test_skills_are_part_of_the_description() -> None:
    """The model reads them by commands, for which it needs their paths."""
    skill = {"name": "pdf", "description": "Reads PDF files", "path": "/skills/pdf"}
    parsed = parse(tools=[{"type": "shell", "environment": {"type": "local", "skills": [skill]}}])
    assert parsed.request.tools[0].function.description.endswith("- pdf: Reads PDF files (/skills/pdf)")


def test_errors_name_the_tool_and_the_action() -> None:
    """What the service rejects in the function is the caller's tool; arguments are the action."""
    assert parse(tools=[{"type": "shell"}]).caller_name("tools[0].function.name") == "tools.0"
    items = [{"type": f"{kind}_call", "call_id": "c", **ARGUMENTS[kind][1]} for kind in KINDS]
    caller_name = parse(input=items).caller_name
    names = [caller_name(f"input[{index}].function_call.arguments") for index in range(3)]
    assert names == ["input.0.action", "input.1.action", "input.2.operation"]


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"tools": [TOOL, {"type": "computer"}]}, "tools.1.type", Reason.UNSUPPORTED_FIELD),
        (
            {
                "tools": [
                    {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "linux"}
                ]
            },
            "tools.0.type",
            Reason.UNSUPPORTED_FIELD,
        ),
        (
            {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]},
            "tools.0.environment.type",
            Reason.UNSUPPORTED_FIELD,
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "shell"}]}},
            "tool_choice.tools.0",
            Reason.INVALID_FIELD,
        ),
        ({"input": [{"type": "shell_call", "call_id": "c"}]}, "input.0.action", Reason.MISSING_FIELD),
        (
            {"input": [{"type": "shell_call", "call_id": "c", "action": {}}]},
            "input.0.action.commands",
            Reason.MISSING_FIELD,
        ),
        (
            {"input": [{"type": "apply_patch_call", "call_id": "c", "operation": {"type": "move", "path": "a"}}]},
            "input.0.operation.type",
            Reason.INVALID_FIELD,
        ),
        (
            {"input": [{"type": "shell_call_output", "call_id": "c", "output": "a"}]},
            "input.0.output",
            Reason.INVALID_TYPE,
        ),
    ],
)
def test_rejections_name_the_field(fields: dict[str, Any], field: str, reason: Reason) -> None:
    """The error has the caller's field."""
    with pytest.raises(Failure) as raised:
        parse(**fields)
    assert (raised.value.field, raised.value.reason) == (field, reason)

"""Tools of responses that are no plain functions: namespaces, and tools that OpenAI's server runs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from google.protobuf import json_format
from sluice.v1 import response_event_pb2, response_item_pb2, response_pb2, stored_response_pb2

from gateway.dialects.openai_family.responses.item import ResponseItem
from gateway.dialects.openai_family.responses.response_object import ResponseObject
from gateway.dialects.openai_family.responses.stored import to_input_item
from gateway.dialects.seam.failure import Failure, Reason
from tests.gateway.dialects.openai.response_requests import NESTED_TOOL, TOOL, parse

TASKS = {
    "type": "namespace",
    "name": "tasks",
    "description": "Tasks.",
    "tools": [TOOL, NESTED_TOOL | {"type": "function"}],
}
SERVERS = {"type": "namespace", "name": "mcp__files__", "tools": [TOOL]}
SEARCH = {"type": "web_search", "external_web_access": True}


def names_of(**fields: Any) -> list[str]:
    """Return the names of the offered functions."""
    return [tool.function.name for tool in parse(**fields).request.tools]


def call_of(name: str) -> response_item_pb2.OutputItem:
    """Return the service's item for a call."""
    return response_item_pb2.OutputItem(
        id="fc_1",
        status=response_item_pb2.RESPONSE_STATUS_COMPLETED,
        function_call=response_item_pb2.FunctionCallItem(call_id="call_1", name=name, arguments="{}"),
    )


def answer_of(*items: response_item_pb2.OutputItem) -> response_pb2.CreateResponseResponse:
    """Return the service's answer with these items."""
    response = response_item_pb2.Response(status=response_item_pb2.RESPONSE_STATUS_COMPLETED, output=items)
    return response_pb2.CreateResponseResponse(response=response)


def test_functions_of_namespaces_have_its_name_in_front() -> None:
    """Two underscores separate both names, unless the namespace ends with them."""
    assert names_of(tools=[TOOL, TASKS, SERVERS]) == ["f", "tasks__f", "tasks__f", "mcp__files__f"]


@pytest.mark.parametrize("stored", [False, True])
def test_calls_have_their_namespace(*, stored: bool) -> None:
    """The answer's item has both names, also that of a stored response; plain functions have no namespace."""
    parsed = parse(tools=[TOOL, TASKS], store=True)
    response = answer_of(call_of("tasks__f"), call_of("f"))
    if stored:
        whole = ResponseObject.from_client_data(parsed.request.client_data).write(response.response)
    else:
        whole = json.loads(parsed.encoder.whole(response))
    of_namespace, plain = whole["output"]
    assert (of_namespace["namespace"], of_namespace["name"]) == ("tasks", "f")
    assert plain["name"] == "f"
    assert "namespace" not in plain


def test_streamed_calls_have_their_namespace() -> None:
    """The events of a call have the function's own name."""
    encoder = parse(tools=[TASKS], stream=True).encoder
    events: list[dict[str, Any]] = [
        {"output_item_added": {"item": json_format.MessageToDict(call_of("tasks__f"))}},
        {"function_call_arguments_done": {"item_id": "fc_1", "arguments": "{}"}},
        {"output_item_done": {"item": json_format.MessageToDict(call_of("tasks__f"))}},
    ]
    added, arguments, done = (
        json.loads(
            encoder.chunk(json_format.ParseDict(event, response_event_pb2.StreamResponseResponse())).split(b"data: ")[1]
        )
        for event in events
    )
    assert [(each["item"]["namespace"], each["item"]["name"]) for each in (added, done)] == [("tasks", "f")] * 2
    assert arguments["name"] == "f"


def test_calls_of_namespaces_can_be_sent_back() -> None:
    """The model sees an earlier call under the name that it was offered."""
    call = {"type": "function_call", "call_id": "c", "namespace": "tasks", "name": "f", "arguments": "{}"}
    (item,) = parse(input=[call], tools=[TASKS]).request.input
    assert (item.function_call.namespace, item.function_call.name) == ("tasks", "tasks__f")


@pytest.mark.parametrize("namespace", ["tasks", "mcp__files__", None])
@pytest.mark.parametrize(
    "kind", [{"type": "function_call", "arguments": "{}"}, {"type": "custom_tool_call", "input": "a b"}]
)
def test_stored_items_have_the_names_that_were_sent(namespace: str | None, kind: dict[str, str]) -> None:
    """An item of a stored response's input, or of a conversation, can be sent again unchanged."""
    names = {"name": "f"} if namespace is None else {"name": "f", "namespace": namespace}
    call = {"call_id": "c", **kind, **names}
    (item,) = parse(input=[call], tools=[TASKS]).request.input
    listed = to_input_item(stored_response_pb2.StoredInputItem(id="fc_1", item=item))
    assert listed == {"id": "fc_1", "status": "completed", **call}
    assert msgspec.convert(listed, ResponseItem)


def test_functions_have_their_namespace() -> None:
    """The service repeats it in the items of calls, which it adds to conversations."""
    patches = {"type": "namespace", "name": "patches", "tools": [{"type": "custom", "name": "apply"}]}
    tools = parse(tools=[TOOL, TASKS, SERVERS, patches]).request.tools
    assert [tool.function.namespace for tool in tools] == ["", "tasks", "tasks", "mcp__files__", "patches"]
    assert tools[-1].function.name == "patches__apply"


def test_namespaces_are_echoed() -> None:
    """The answer has the tools in the form of the request."""
    whole = json.loads(parse(tools=[TASKS, SEARCH]).encoder.whole(answer_of()))
    (echoed,) = whole["tools"]
    assert echoed == TASKS


def test_tools_of_openais_server_are_not_offered() -> None:
    """They are left out where there are functions, as in agents' requests, and are an error alone."""
    assert names_of(tools=[SEARCH, TOOL]) == ["f"]
    with pytest.raises(Failure, match="'web_search' is not supported") as raised:
        parse(tools=[SEARCH])
    assert (raised.value.field, raised.value.reason) == ("tools.0.type", Reason.UNSUPPORTED_FIELD)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("tools[1].function.name", "tools.1.tools.0.name"),
        ("tools[2].function.parameters", "tools.1.tools.1.function.parameters"),
        ("tools[0].function.description", "tools.0.description"),
    ],
)
def test_errors_name_the_function_within_its_namespace(field: str, name: str) -> None:
    """The service counts functions; the caller's path has the namespace, too."""
    assert parse(tools=[TOOL, TASKS]).caller_name(field) == name


@pytest.mark.parametrize(
    "kind", ["web_search_2025_08_26", "web_search_preview_2025_03_11", "tool_search", "mcp", "image_generation"]
)
def test_tools_that_openais_server_runs_are_left_out(kind: str) -> None:
    """Agents send them along with their functions."""
    assert names_of(tools=[{"type": kind, "execution": "client"}, TOOL]) == ["f"]


def test_fields_of_tools_without_effect() -> None:
    """Clients may say who calls a function, what it returns, and that it needn't be offered at once."""
    unused = {"defer_loading": True, "allowed_callers": ["direct", "programmatic"]}
    custom = {"type": "custom", "name": "patch"}
    tools = [TOOL | unused | {"output_schema": {"type": "string"}}, custom | unused]
    assert parse(tools=tools).request == parse(tools=[TOOL, custom]).request


def test_reasoning_options_without_effect() -> None:
    """The context is the template's business, and there is one mode, besides which others are rejected."""
    options = {"effort": "low", "context": "all_turns", "mode": "standard"}
    assert parse(reasoning=options).request == parse(reasoning={"effort": "low"}).request
    with pytest.raises(Failure) as raised:
        parse(reasoning={"mode": "pro"})
    assert raised.value.field == "reasoning.mode"

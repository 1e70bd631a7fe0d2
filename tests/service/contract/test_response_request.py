"""Items of a response's request become a chat's messages, and field names find their way back."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format
from sluice.v1 import chat_pb2, content_pb2, response_item_pb2, response_pb2

from service.generation.errors import InvalidRequest
from service.pipeline.conversation import template_messages
from service.pipeline.response_input import ResponseChat

Item = dict[str, Any]


def text(role: str, *texts: str) -> Item:
    return {"message": {"role": f"ROLE_{role.upper()}", "content": [{"text": each} for each in texts]}}


def call(call_id: str) -> Item:
    return {"function_call": {"call_id": call_id, "name": f"f{call_id}", "arguments": "{}"}}


def output(call_id: str, result: str = "42") -> Item:
    return {"function_call_output": {"call_id": call_id, "output": result}}


def thought(words: str) -> Item:
    return {"reasoning": {"text": words}}


def request_of(*items: Item, **fields: Any) -> response_pb2.CreateResponseRequest:
    request = response_pb2.CreateResponseRequest()
    return json_format.ParseDict({"model": "m", "input": items, **fields}, request)


def turns_of(*items: Item, **fields: Any) -> list[str]:
    """The messages, each in one line: `role: <thoughts> text | text -> call`."""
    lines = []
    for message in ResponseChat(request_of(*items, **fields)).request.messages:
        role = content_pb2.Role.Name(message.role).removeprefix("ROLE_").lower()
        if message.tool_call_id:
            role += f"({message.tool_call_id})"
        thoughts = [f"<{message.reasoning}>"] if message.HasField("reasoning") else []
        texts = [" | ".join(part.text for part in message.content)] if message.content else []
        calls = [f"-> {each.id} {each.function.name}{each.function.arguments}" for each in message.tool_calls]
        lines.append(f"{role}: {' '.join([*thoughts, *texts, *calls])}")
    return lines


@pytest.mark.parametrize(
    ("items", "instructions", "turns"),
    [
        ([text("user", "hi")], None, ["user: hi"]),
        ([text("user", "a", "b")], None, ["user: a | b"]),
        ([text("user", "a"), text("user", "b")], None, ["user: a", "user: b"]),
        ([text("user", "hi")], "Be kind.", ["system: Be kind.", "user: hi"]),
        ([text("user", "hi")], "", ["user: hi"]),
        ([text("system", "A", "B"), text("user", "hi")], "I", ["system: I | \n\n | A | B", "user: hi"]),
        ([text("system", "A"), text("system", "B")], None, ["system: A | \n\n | B"]),
        ([thought("hm"), text("assistant", "a"), call("1")], None, ["assistant: <hm> a -> 1 f1{}"]),
        ([call("1"), call("2"), output("2"), output("1")], None,
         ["assistant: -> 1 f1{} -> 2 f2{}", "tool(2): 42", "tool(1): 42"]),
        ([call("1"), output("1"), call("2")], None, ["assistant: -> 1 f1{}", "tool(1): 42", "assistant: -> 2 f2{}"]),
        ([text("assistant", "a"), text("assistant", "b")], None, ["assistant: a", "assistant: b"]),
        ([text("assistant", "a"), call("1"), text("assistant", "b")], None, ["assistant: a | b -> 1 f1{}"]),
        ([thought("a"), thought("b"), text("assistant", "c")], None, ["assistant: <a\nb> c"]),
        ([text("assistant", "a"), thought("b"), text("assistant", "c")], None, ["assistant: a", "assistant: <b> c"]),
        ([thought(""), text("user", "hi"), thought("")], None, ["user: hi"]),
        ([thought("cut off"), text("user", "go on")], None, ["assistant: <cut off> ", "user: go on"]),
    ],
)  # fmt: skip
def test_items_become_turns(items: list[Item], instructions: str | None, turns: list[str]) -> None:
    """What one answer made is one turn of the assistant again; instructions and first system messages are one too."""
    fields = {} if instructions is None else {"instructions": instructions}
    assert turns_of(*items, **fields) == turns


def test_every_other_field_reaches_the_chat() -> None:
    """Sampling, limits, logprobs, formats, tools, effort and serving options are passed on as they are."""
    fields: dict[str, Any] = {
        "model": "m",
        "sampling": {"temperature": 0.5, "seed": "7"},
        "logprobs": {"topLogprobs": 2},
        "outputConstraint": {"jsonObject": {}},
        "tools": [{"function": {"name": "f"}}],
        "toolChoice": {"functionName": "f"},
        "parallelToolCalls": False,
        "reasoningEffort": "REASONING_EFFORT_LOW",
        "serving": {"priority": 3, "cacheSalt": "s", "deployment": "d"},
    }
    items = [text("user", "hi")]
    request = request_of(*items, **fields, maxOutputTokens=9, maxToolCalls=2, metadata={"a": "b"}, instructions="I")
    set_fields = {each.name for each, _ in request.ListFields()}
    assert set_fields == {each.name for each in request.DESCRIPTOR.fields}
    chat = json_format.MessageToDict(ResponseChat(request).request)
    messages = chat.pop("messages")
    assert chat == fields | {"stopping": {"maxTokens": 9}}
    assert len(messages) == 2


def test_nothing_given_sets_nothing() -> None:
    """What the request leaves out is left out of the chat."""
    chat = ResponseChat(request_of(text("user", "hi"))).request
    assert {each.name for each, _ in chat.ListFields()} == {"model", "messages"}


@pytest.mark.parametrize("before", [text("user", "hi"), text("assistant", "hi"), thought("hm"), call("1")])
def test_system_message_must_come_first(before: Item) -> None:
    """A later one is refused by its place."""
    with pytest.raises(InvalidRequest) as refusal:
        ResponseChat(request_of(text("system", "A"), before, text("system", "B")))
    assert refusal.value.field == "input[2].message.role"


ITEMS = [text("system", "S"), text("user", "a", "b"), thought("hm"), text("assistant", "c"), call("1"), output("1")]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("messages", "input"),
        ("messages[0]", "instructions"),
        ("messages[0].content[2].image_url", "input[0].message.content[0].image_url"),
        ("messages[1]", "input[1].message"),
        ("messages[1].content[1].file", "input[1].message.content[1].file"),
        ("messages[2].content[0].file", "input[3].message.content[0].file"),
        ("messages[3].tool_call_id", "input[5].function_call_output.call_id"),
        ("stopping.max_tokens", "max_output_tokens"),
        ("sampling.top_k", "sampling.top_k"),
        ("tools[0].function.parameters", "tools[0].function.parameters"),
    ],
)
def test_field_names_find_their_way_back(path: str, field: str) -> None:
    """What the chat finds wrong is told by the item it came from."""
    assert ResponseChat(request_of(*ITEMS, instructions="I")).field(path) == field


def test_output_needs_an_earlier_call() -> None:
    """An output that answers nothing is refused by the chat's own check, under the item's name."""
    form = ResponseChat(request_of(text("user", "hi"), call("1"), output("2")))
    with pytest.raises(InvalidRequest) as refusal:
        template_messages(form.request.messages, default_system_prompt=None, markers=None, parse_arguments=True)
    assert form.field(refusal.value.field) == "input[2].function_call_output.call_id"


def test_kinds_are_all_of_the_contract() -> None:
    """No kind of item was forgotten: each of the contract's makes a turn of a role of its own."""
    kinds = [each.name for each in response_item_pb2.InputItem.DESCRIPTOR.oneofs_by_name["item"].fields]
    assert sorted(kinds) == sorted({next(iter(item)) for item in ITEMS})
    assert isinstance(ResponseChat(request_of(*ITEMS)).request, chat_pb2.ChatRequest)

"""The items of a response's request become a conversation whose values have their paths in the request."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format
from sluice.v1 import response_item_pb2, response_pb2

from service.contract.responses.response_request import to_answer_request
from service.generation.errors import InvalidRequest
from service.generation.formats.constraint import ReasoningMarkers
from service.generation.formats.output_format import JsonObject
from service.generation.prompts.conversation import (
    Conversation,
    FilePart,
    Function,
    ImagePart,
    Message,
    ReasoningEffort,
    TextPart,
    ToolChoice,
    ToolMode,
)
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.prompts.templates.call_form import CallForm
from service.prompts.templates.template_input import template_messages
from tests.service.contract.fakes import RESUMED, resume_options

Item = dict[str, Any]
# Fields that concern how a response is resumed, stored and continued, and not the conversation.
SERVED_BY_OTHERS = {
    "resume", "store", "previous_response_id", "client_data", "background", "conversation", "conversation_until",
}  # fmt: skip


def text(role: str, *texts: str) -> Item:
    return {"message": {"role": f"ROLE_{role.upper()}", "content": [{"text": each} for each in texts]}}


def call(call_id: str) -> Item:
    return {"function_call": {"call_id": call_id, "name": f"f{call_id}", "arguments": "{}"}}


def output(call_id: str, result: str = "42") -> Item:
    return {"function_call_output": {"call_id": call_id, "output": result}}


def reasoning(text: str) -> Item:
    return {"reasoning": {"text": text}}


def request_of(*items: Item, **fields: Any) -> response_pb2.CreateResponseRequest:
    request = response_pb2.CreateResponseRequest()
    return json_format.ParseDict({"model": "m", "input": items, **fields}, request)


def conversation_of(*items: Item, **fields: Any) -> Conversation:
    (conversation,) = to_answer_request(request_of(*items, **fields)).prompts
    assert isinstance(conversation, Conversation)
    return conversation


def line(message: Message) -> str:
    """Return a message as one line: `role: <reasoning> text | text -> call`."""
    role = message.role.value
    if message.tool_call_id:
        role += f"({message.tool_call_id})"
    reasoned = [f"<{message.reasoning}>"] if message.reasoning is not None else []
    texts = [" | ".join(part.text for part in message.content if isinstance(part, TextPart))] if message.content else []
    calls = [f"-> {each.id} {each.name}{each.arguments}" for each in message.tool_calls]
    return f"{role}: {' '.join([*reasoned, *texts, *calls])}"


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
        ([reasoning("hm"), text("assistant", "a"), call("1")], None, ["assistant: <hm> a -> 1 f1{}"]),
        ([call("1"), call("2"), output("2"), output("1")], None,
         ["assistant: -> 1 f1{} -> 2 f2{}", "tool(2): 42", "tool(1): 42"]),
        ([call("1"), output("1"), call("2")], None, ["assistant: -> 1 f1{}", "tool(1): 42", "assistant: -> 2 f2{}"]),
        ([text("assistant", "a"), text("assistant", "b")], None, ["assistant: a", "assistant: b"]),
        ([text("assistant", "a"), call("1"), text("assistant", "b")], None, ["assistant: a | b -> 1 f1{}"]),
        ([reasoning("a"), reasoning("b"), text("assistant", "c")], None, ["assistant: <a\nb> c"]),
        ([text("assistant", "a"), reasoning("b"), text("assistant", "c")], None, ["assistant: a", "assistant: <b> c"]),
        ([reasoning(""), text("user", "hi"), reasoning("")], None, ["user: hi"]),
        ([reasoning("cut off"), text("user", "go on")], None, ["assistant: <cut off> ", "user: go on"]),
    ],
)  # fmt: skip
def test_items_become_turns(items: list[Item], instructions: str | None, turns: list[str]) -> None:
    """The items of one answer become one assistant turn, and instructions and the first system messages one message."""
    fields = {} if instructions is None else {"instructions": instructions}
    assert [line(message) for message in conversation_of(*items, **fields).messages] == turns


def test_every_other_field_is_converted() -> None:
    """Sampling, limits, logprobs, formats, tools, effort and serving options are values; the rest is for the answer."""
    fields: dict[str, Any] = {
        "sampling": {"temperature": 0.5, "seed": "7"},
        "logprobs": {"topLogprobs": 2},
        "outputConstraint": {"jsonObject": {}},
        "tools": [{"function": {"name": "f"}}],
        "toolChoice": {"functionName": "f"},
        "parallelToolCalls": False,
        "reasoningEffort": "REASONING_EFFORT_LOW",
        "defaultReasoningEffort": "REASONING_EFFORT_MEDIUM",
        "chatTemplateKwargs": '{"a": 1}',
        "serving": {
            "priority": 3,
            "cacheSalt": "s",
            "deployment": "d",
            "errorBehavior": "ERROR_BEHAVIOR_TRUNCATE",
            "separateTokens": True,
        },
    }
    request = request_of(
        text("user", "hi"),
        **fields,
        maxOutputTokens=9,
        maxToolCalls=2,
        metadata={"a": "b"},
        instructions="I",
        responseId="0" * 32,
    )
    set_fields = {each.name for each, _ in request.ListFields()}
    assert set_fields == {each.name for each in request.DESCRIPTOR.fields} - SERVED_BY_OTHERS
    request.resume.CopyFrom(resume_options(RESUMED))
    converted = to_answer_request(request)
    (conversation,) = converted.prompts
    assert isinstance(conversation, Conversation)
    assert converted == AnswerRequest(
        model="m",
        prompts=(conversation,),
        prompts_field="input",
        max_tokens_field="max_output_tokens",
        deployment="d",
        sampling=SamplingParams(temperature=0.5, seed=7),
        given=frozenset({"temperature", "seed"}),
        stopping=StopParams(max_tokens=9),
        logprobs=LogprobsOptions(2),
        output_format=JsonObject("output_constraint.json_object"),
        answer_id="0" * 32,
        priority=3,
        cache_salt="s",
        truncates=True,
        separates_tokens=True,
        resume=RESUMED,
    )
    assert conversation == Conversation(
        messages=conversation.messages,
        tools=(Function("f", field="tools[0].function"),),
        tool_choice=ToolChoice(ToolMode.REQUIRED, "f"),
        parallel_tool_calls=False,
        reasoning_effort=ReasoningEffort.LOW,
        default_effort=ReasoningEffort.MEDIUM,
        template_variables='{"a": 1}',
        field="input",
    )
    assert len(conversation.messages) == 2


def test_omitted_fields_have_their_defaults() -> None:
    """Omitted fields are left to the model."""
    converted = to_answer_request(request_of(text("user", "hi")))
    (conversation,) = converted.prompts
    assert isinstance(conversation, Conversation)
    assert converted == AnswerRequest("m", (conversation,), "input", max_tokens_field="max_output_tokens")
    assert conversation == Conversation(conversation.messages, field="input")


@pytest.mark.parametrize("before", [text("user", "hi"), text("assistant", "hi"), reasoning("hm"), call("1")])
def test_later_system_message_is_a_turn_of_the_user(before: Item) -> None:
    """Templates have no other position for it; those that follow it belong to it, as those at the beginning do."""
    items = (text("system", "A"), before, text("system", "B"), text("system", "C"), text("user", "go on"))
    turns = [line(message) for message in conversation_of(*items).messages]
    assert (turns[0], turns[2:]) == ("system: A", ["user: B", "user: C", "user: go on"])


ITEMS = [text("system", "S"), text("user", "a", "b"), reasoning("hm"), text("assistant", "c"), call("1"), output("1")]


def test_messages_have_the_paths_of_their_items() -> None:
    """Errors about a message name the first item that it was made of."""
    conversation = conversation_of(*ITEMS, instructions="I")
    assert (conversation.field, [message.field for message in conversation.messages]) == (
        "input",
        ["instructions", "input[1].message", "input[2]", "input[5]"],
    )
    assert conversation.messages[3].tool_call_field == "input[5].function_call_output.call_id"


@pytest.mark.parametrize(
    ("item", "paths"),
    [
        ((0, 0, {"imageUrl": {"url": "u"}}), ["input[0].message.content[0].image_url"]),
        ((1, 1, {"file": {"url": "u"}}), ["input[1].message.content[1].file"]),
        ((3, 0, {"file": {"fileId": "u"}}), ["input[3].message.content[0].file"]),
    ],
)
def test_parts_have_their_paths(item: tuple[int, int, Item], paths: list[str]) -> None:
    """Parts have their paths even in a message that was made of several items and the instructions."""
    index, number, part = item
    items = [json_format.MessageToDict(each) for each in request_of(*ITEMS).input]
    items[index]["message"]["content"][number] = part
    conversation = conversation_of(*items, instructions="I")
    parts = [part for message in conversation.messages for part in message.content]
    assert [part.field for part in parts if isinstance(part, ImagePart | FilePart)] == paths


def test_output_needs_an_earlier_call() -> None:
    """An output without a call is rejected for the item."""
    conversation = conversation_of(text("user", "hi"), call("1"), output("2"))
    markers = ReasoningMarkers("<think>", "</think>")
    with pytest.raises(InvalidRequest) as caught:
        template_messages(conversation.messages, default_system_prompt=None, markers=markers, form=CallForm())
    assert caught.value.field == "input[2].function_call_output.call_id"


def test_every_item_kind_of_the_contract_is_tested() -> None:
    """Each kind of item in the contract is tested here."""
    kinds = [each.name for each in response_item_pb2.InputItem.DESCRIPTOR.oneofs_by_name["item"].fields]
    kinds.remove("reference")  # replaced before
    assert sorted(kinds) == sorted({next(iter(item)) for item in ITEMS})

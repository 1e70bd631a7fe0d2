"""Chats: conversion between messages and values."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format
from sluice.v1 import chat_pb2, content_pb2, sampling_pb2, tool_pb2

from service.contract.generations.chat import to_answer_request, to_conversation
from service.contract.parts.conversation import to_output_format
from service.generation.formats.output_format import (
    JsonObject,
    JsonSchema,
    OutputFormat,
    Regex,
    TextChoice,
    TextGrammar,
)
from service.generation.prompts.conversation import (
    Conversation,
    FilePart,
    Function,
    FunctionCall,
    ImagePart,
    Message,
    ReasoningEffort,
    Role,
    TextPart,
    ToolChoice,
    ToolMode,
)
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.service_level import ServiceLevel
from tests.service.contract.fakes import RESUMED, chat_request, function, message, resume_options, user


def conversation_of(request: chat_pb2.ChatRequest) -> Conversation:
    (conversation,) = to_answer_request(request).prompts
    assert isinstance(conversation, Conversation)
    return conversation


def test_every_field_is_converted() -> None:
    """Every field of a chat's request is a value of the internal request."""
    fields: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "ROLE_USER", "content": [{"text": "hi"}]}],
        "sampling": {"temperature": 0.5, "seed": "7"},
        "stopping": {"maxTokens": 9},
        "n": 3,
        "logprobs": {"topLogprobs": 2},
        "outputConstraint": {"jsonObject": {}},
        "tools": [{"function": {"name": "f", "description": "d", "parameters": "{}", "strict": True}}],
        "toolChoice": {"mode": "TOOL_CHOICE_MODE_REQUIRED"},
        "parallelToolCalls": False,
        "reasoningEffort": "REASONING_EFFORT_HIGH",
        "defaultReasoningEffort": "REASONING_EFFORT_MEDIUM",
        "reasoningBudget": 1024,
        "continueFinalMessage": True,
        "addGenerationPrompt": False,
        "chatTemplateKwargs": '{"mood": "calm"}',
        "skipSpecialTokens": False,
        "promptLogprobs": {"topLogprobs": 1},
        "tokens": {"ids": True},  # returned with the answer
        "serving": {
            "priority": -3,
            "cacheSalt": "s",
            "deployment": "d",
            "errorBehavior": "ERROR_BEHAVIOR_TRUNCATE",
            "separateTokens": True,
            "sloFirstTokenSeconds": 2,
            "sloTokenSeconds": 0.5,
        },
    }
    request = json_format.ParseDict(fields, chat_pb2.ChatRequest())
    request.resume.CopyFrom(resume_options(RESUMED))
    assert {each.name for each, _ in request.ListFields()} == {each.name for each in request.DESCRIPTOR.fields}
    message_value = Message(
        Role.USER, (TextPart("hi"),), field="messages[0]", tool_call_field="messages[0].tool_call_id"
    )
    conversation = Conversation(
        messages=(message_value,),
        tools=(Function("f", "d", "{}", strict=True, field="tools[0].function"),),
        tool_choice=ToolChoice(ToolMode.REQUIRED),
        parallel_tool_calls=False,
        reasoning_effort=ReasoningEffort.HIGH,
        default_effort=ReasoningEffort.MEDIUM,
        reasoning_budget=1024,
        continues=True,
        opens_turn=False,
        template_variables='{"mood": "calm"}',
    )
    assert to_answer_request(request) == AnswerRequest(
        model="m",
        prompts=(conversation,),
        prompts_field="messages",
        deployment="d",
        sampling=SamplingParams(temperature=0.5, seed=7),
        given=frozenset({"temperature", "seed"}),
        stopping=StopParams(max_tokens=9),
        n=3,
        logprobs=LogprobsOptions(2),
        prompt_logprobs=LogprobsOptions(1),
        skip_special_tokens=False,
        output_format=JsonObject("output_constraint.json_object"),
        priority=-3,
        service_level=ServiceLevel(2.0, 0.5),
        cache_salt="s",
        truncates=True,
        separates_tokens=True,
        resume=RESUMED,
    )


def test_omitted_fields_have_their_defaults() -> None:
    """Omitted fields are left to the model."""
    request = chat_request()
    converted = to_answer_request(request)
    assert converted == AnswerRequest("tiny", converted.prompts, "messages")
    assert conversation_of(request) == Conversation(conversation_of(request).messages)


def test_message_keeps_all_sent_fields() -> None:
    """A message has its parts, calls, name and reasoning, and their paths for errors."""
    call = tool_pb2.ToolCall(id="1", function=tool_pb2.FunctionCall(name="f", arguments="{broken"))
    sent = message(content_pb2.ROLE_ASSISTANT, "a", name="n", reasoning="", tool_calls=[call])
    sent.content.add().image_url.url = "https://x/y.png"
    sent.content.add().file.file_id = "id"
    sent.content.add().file.url = "https://x/y.pdf"
    answered = message(content_pb2.ROLE_TOOL, "42", tool_call_id="1")
    first, second, third = conversation_of(chat_request(user("hi"), sent, answered)).messages
    assert (first.name, first.reasoning, first.tool_calls) == (None, None, ())
    assert second == Message(
        Role.ASSISTANT,
        (
            TextPart("a"),
            ImagePart("https://x/y.png", "messages[1].content[1].image_url"),
            FilePart("messages[1].content[2].file", file_id="id"),
            FilePart("messages[1].content[3].file", url="https://x/y.pdf"),
        ),
        tool_calls=(FunctionCall("1", "f", "{broken"),),
        name="n",
        reasoning="",
        field="messages[1]",
        tool_call_field="messages[1].tool_call_id",
    )
    assert (third.role, third.tool_call_id, third.tool_call_field) == (Role.TOOL, "1", "messages[2].tool_call_id")


@pytest.mark.parametrize("role", [role for role in content_pb2.Role.values() if role])
def test_every_role_of_the_contract_is_converted(role: content_pb2.Role) -> None:
    """Each role has the name that templates use."""
    (message_value,) = conversation_of(chat_request(message(role, "x"))).messages
    assert message_value.role.value == content_pb2.Role.Name(role).removeprefix("ROLE_").lower()


@pytest.mark.parametrize("effort", chat_pb2.ReasoningEffort.values())
def test_every_effort_of_the_contract_is_converted(effort: chat_pb2.ReasoningEffort) -> None:
    """An unspecified effort leaves it to the template."""
    converted = conversation_of(chat_request(reasoning_effort=effort)).reasoning_effort
    name = chat_pb2.ReasoningEffort.Name(effort).removeprefix("REASONING_EFFORT_").lower()
    assert (converted.value if converted else "unspecified") == name


@pytest.mark.parametrize("mode", tool_pb2.ToolChoiceMode.values())
def test_every_tool_mode_of_the_contract_is_converted(mode: tool_pb2.ToolChoiceMode) -> None:
    """An unspecified mode is automatic."""
    converted = conversation_of(chat_request(tools=[function("f")], tool_choice=tool_pb2.ToolChoice(mode=mode)))
    name = tool_pb2.ToolChoiceMode.Name(mode).removeprefix("TOOL_CHOICE_MODE_").lower()
    assert converted.tool_choice == ToolChoice(ToolMode("auto" if name == "unspecified" else name))


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        (sampling_pb2.OutputConstraint(json_object={}), JsonObject("output_constraint.json_object")),
        (
            sampling_pb2.OutputConstraint(json_schema={"name": "x", "description": "d", "schema": "{", "strict": True}),
            JsonSchema("{", strict=True, field="output_constraint.json_schema.schema", name="x", description="d"),
        ),
        (sampling_pb2.OutputConstraint(regex="a+"), Regex("a+", "output_constraint.regex")),
        (
            sampling_pb2.OutputConstraint(choice={"texts": ["a", "b"]}),
            TextChoice(("a", "b"), "output_constraint.choice.texts"),
        ),
        (sampling_pb2.OutputConstraint(grammar="root ::= x"), TextGrammar("root ::= x", "output_constraint.grammar")),
    ],
)
def test_output_formats_have_their_paths(constraint: sampling_pb2.OutputConstraint, expected: OutputFormat) -> None:
    """Each kind of format is a value with its field's path."""
    assert to_output_format(constraint) == expected


def test_every_output_format_of_the_contract_is_tested() -> None:
    """The previous test covers every kind of format."""
    kinds = sampling_pb2.OutputConstraint.DESCRIPTOR.oneofs_by_name["constraint"].fields
    assert [each.name for each in kinds] == ["json_object", "json_schema", "regex", "choice", "grammar"]


@pytest.mark.parametrize(
    ("fields", "is_emitted"), [({}, True), ({"in_prompt": True}, True), ({"in_prompt": False}, False)]
)
def test_schema_is_in_the_prompt_unless_the_request_excludes_it(fields: dict[str, bool], *, is_emitted: bool) -> None:
    """The answer is held to the schema in either case."""
    request = chat_pb2.ChatRequest(output_constraint={"json_schema": {"name": "x", "schema": "{}", **fields}})
    assert (to_conversation(request).schema is not None) == is_emitted
    assert isinstance(to_answer_request(request).output_format, JsonSchema)
    assert to_conversation(chat_pb2.ChatRequest(output_constraint={"json_object": {}})).schema is None

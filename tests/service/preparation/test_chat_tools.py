"""Tools and constraints of whole requests: what may be said, and what becomes of it."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from sluice.v1 import chat_pb2, logprobs_pb2, sampling_pb2, tool_pb2

from service.generation.errors import InvalidRequest, UnsupportedFeature
from service.pipeline.chat import ChatPipeline
from tests.pipeline.chat_cases import END_ID, NONE, REQUIRED, SCHEMA, TOKENIZER, WEATHER, answer_of, prompt_of
from tests.pipeline.fakes import (
    END,
    babble,
    events_of,
    fold,
    function,
    outputs_of,
    pipeline_of,
    request_of,
    token_id,
    tokenizer_of,
)


async def test_tools_are_shown_unless_none_may_be_called(pipeline: ChatPipeline) -> None:
    """With `none`, the model sees no tools, and what looks like a call is text."""
    shown = await pipeline.prepare(request_of(tools=[WEATHER]), "r")
    hidden = await pipeline.prepare(request_of(tools=[WEATHER], tool_choice=NONE), "r")
    assert ("weather" in prompt_of(shown), "weather" in prompt_of(hidden)) == (True, False)
    call = '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>'
    assert answer_of(shown, call).finish_reason == chat_pb2.FINISH_REASON_TOOL_CALLS
    assert answer_of(hidden, call).message.content[0].text == call


async def test_tools_need_a_template_that_takes_them() -> None:
    """A model that can't be shown tools refuses them."""
    pipeline = pipeline_of("{{ messages[0].content }}")
    assert not pipeline.supports_tools
    with pytest.raises(UnsupportedFeature) as refusal:
        await pipeline.prepare(request_of(tools=[WEATHER]), "r")
    assert (refusal.value.field, refusal.value.reason) == ("tools", "UNSUPPORTED_FEATURE")
    pipeline.close()


@pytest.mark.parametrize(
    ("fields", "is_constrained"),
    [
        ({}, False),
        ({"tools": [WEATHER]}, False),
        ({"tools": [WEATHER], "parallel_tool_calls": True}, False),
        ({"tools": [WEATHER], "parallel_tool_calls": False}, True),
        ({"tools": [function("f", strict=True)]}, True),
        ({"tools": [WEATHER], "tool_choice": REQUIRED}, True),
        ({"tools": [WEATHER], "tool_choice": tool_pb2.ToolChoice(function_name="weather")}, True),
        ({"tools": [function("f", strict=True)], "tool_choice": NONE}, False),
        ({"output_constraint": sampling_pb2.OutputConstraint(json_object={})}, True),
        ({"reasoning_effort": chat_pb2.REASONING_EFFORT_LOW}, True),
        ({"reasoning_effort": chat_pb2.REASONING_EFFORT_NONE}, False),
    ],
)
async def test_only_what_needs_a_constraint_has_one(
    pipeline: ChatPipeline, fields: dict[str, Any], *, is_constrained: bool
) -> None:
    """Free answers cost no mask."""
    chat = await pipeline.prepare(request_of(**fields), "r")
    assert (chat.generation.constraint is not None) is is_constrained


@pytest.mark.parametrize("seed", range(40))
async def test_demanded_answers_hold_for_a_senseless_model(pipeline: ChatPipeline, seed: int) -> None:
    """Required and named calls, strict ones, schemas, after thinking or not: what comes out matches what was asked."""
    rng = random.Random(seed)
    kind = rng.choice(["required", "named", "single", "schema", "schema beside tools"])
    fields: dict[str, Any] = {"tools": [WEATHER, function("ping")]}
    if kind == "named":
        fields["tool_choice"] = tool_pb2.ToolChoice(function_name="weather")
    elif kind in ("required", "single"):
        fields |= {"tool_choice": REQUIRED, "parallel_tool_calls": kind == "required"}
    else:
        constraint = sampling_pb2.JsonSchema(name="x", schema=json.dumps(SCHEMA))
        fields["output_constraint"] = sampling_pb2.OutputConstraint(json_schema=constraint)
        if kind == "schema":
            del fields["tools"]
    effort = rng.choice(
        [chat_pb2.REASONING_EFFORT_LOW, chat_pb2.REASONING_EFFORT_NONE, chat_pb2.REASONING_EFFORT_MEDIUM]
    )
    chat = await pipeline.prepare(request_of(reasoning_effort=effort, **fields), "r")
    assert chat.generation.constraint is not None
    said = babble(chat.generation.constraint.fork(), TOKENIZER, END_ID, rng, max_tokens=12_000)
    cuts = sorted(rng.sample(range(1, len(said)), min(20, len(said) - 1)))
    answer = fold(events_of(chat, outputs_of(TOKENIZER, said, cuts=cuts))).choices[0]
    calls, content = answer.message.tool_calls, "".join(part.text for part in answer.message.content)
    assert (chat.usage().reasoning_tokens > 0) is (effort != chat_pb2.REASONING_EFFORT_NONE)
    if calls:
        assert content == ""
        assert answer.finish_reason == chat_pb2.FINISH_REASON_TOOL_CALLS
    else:
        assert kind.startswith("schema")
        jsonschema.validate(json.loads(content), SCHEMA)
    if kind == "named":
        assert [call.function.name for call in calls] == ["weather"]
    if kind == "single":
        assert len(calls) == 1
    for call in calls:
        arguments = json.loads(call.function.arguments)
        if kind in ("required", "named", "single") and call.function.name == "weather":
            jsonschema.validate(arguments, SCHEMA)


async def test_named_function_must_be_there(pipeline: ChatPipeline) -> None:
    """A choice that names no tool of the request is refused here too."""
    with pytest.raises(InvalidRequest) as refusal:
        await pipeline.prepare(request_of(tools=[WEATHER], tool_choice=tool_pb2.ToolChoice(function_name="other")), "r")
    assert refusal.value.field == "tool_choice.function_name"


async def test_markers_that_are_special_tokens_are_shown_to_the_parser() -> None:
    """Where a family writes calls with a special token, the engine is asked to show it."""
    tokenizer = tokenizer_of(special=("<|im_end|>", "<|python_tag|>"))
    pipeline = pipeline_of("{{ tools }}{{ messages[0].content }}{# <|python_tag|> #}<|python_tag|>", tokenizer)
    assert (await pipeline.prepare(request_of(), "r")).generation.skip_special_tokens
    chat = await pipeline.prepare(request_of(tools=[WEATHER]), "r")
    assert not chat.generation.skip_special_tokens
    said = [*tokenizer.encode('<|python_tag|>{"name": "weather", "parameters": {}}'), token_id(tokenizer, END)]
    answer = fold(events_of(chat, outputs_of(tokenizer, said, hides_special=False))).choices[0]
    assert answer.message.tool_calls[0].function.name == "weather"
    assert not answer.message.content
    chat = await pipeline.prepare(request_of(tools=[WEATHER], logprobs=logprobs_pb2.LogprobsOptions()), "r")
    said = [*tokenizer.encode("<|python_tag|>no call"), token_id(tokenizer, END)]
    answer = fold(events_of(chat, outputs_of(tokenizer, said, hides_special=False))).choices[0]
    assert b"".join(logprob.bytes for logprob in answer.logprobs) == b"<|python_tag|>no call"
    pipeline.close()

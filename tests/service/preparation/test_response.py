"""Whole responses over a real chat pipeline: from items to tokens, from tokens to items."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import json_format
from sluice.v1 import model_pb2, response_item_pb2, response_pb2

from service.generation.errors import InvalidRequest, UnsupportedModality
from service.pipeline.chat import ChatPipeline
from service.pipeline.prepared import Identity
from service.pipeline.prepared_response import PreparedResponse, prepare_response
from tests.pipeline.fakes import ADDED, END, outputs_of, pipeline_of, token_id, tokenizer_of
from tests.pipeline.response_cases import Event, check_order

TOKENIZER = tokenizer_of(*ADDED)
END_ID = token_id(TOKENIZER, END)
IDENTITY = Identity.now(model_pb2.Model(name="tiny"))
USER = {"message": {"role": "ROLE_USER", "content": [{"text": "hello"}]}}
TOOLS = [{"function": {"name": "weather"}}]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


@pytest.fixture(scope="module")
def pipeline() -> Iterator[ChatPipeline]:
    pipeline = pipeline_of()
    yield pipeline
    pipeline.close()


async def prepared(pipeline: ChatPipeline, *items: Any, **fields: Any) -> PreparedResponse:
    request = response_pb2.CreateResponseRequest()
    json_format.ParseDict({"model": "tiny", "input": items or [USER], **fields}, request)
    return await prepare_response(pipeline, request, "r", None)


def respond(response: PreparedResponse, text: str, **how: Any) -> response_item_pb2.Response:
    """What becomes of a model that says `text`; its events must be in order."""
    outputs = outputs_of(TOKENIZER, [*TOKENIZER.encode(text), END_ID], **how)
    events: list[Event] = [
        *response.started(IDENTITY),
        *(event for output in outputs for event in response.events(output)),
        *response.completed(),
    ]
    for number, event in enumerate(events):
        event.sequence_number = number
    check_order(events)
    for item in events[-1].completed.response.output:
        if item.HasField("function_call"):
            item.function_call.call_id = ""  # drawn anew each time
    return events[-1].completed.response


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("It is é.", ["message It is é."]),
        ("<think>\nthe name\n</think>\n\nIt is.", ["reasoning the name", "message It is."]),
        (f"<think>hm</think>Let me see.\n{CALL}\n{CALL} there",
         ["reasoning hm", "message Let me see.", 'function_call {"city": "Oslo"}', 'function_call {"city": "Oslo"}',
          "message  there"]),
        ("", ["message "]),
    ],
)  # fmt: skip
async def test_response_is_the_same_for_every_grouping(pipeline: ChatPipeline, text: str, items: list[str]) -> None:
    """However many tokens come in one output, the items, their logprobs and the usage are the same."""
    fields = {"tools": TOOLS, "logprobs": {"topLogprobs": 0}}
    whole = respond(await prepared(pipeline, **fields), text)
    texts = [
        item.message.content[0].text
        if item.HasField("message")
        else item.reasoning.text or item.function_call.arguments
        for item in whole.output
    ]
    assert [f"{item.WhichOneof('item')} {each}" for item, each in zip(whole.output, texts, strict=True)] == items
    num_tokens = len(TOKENIZER.encode(text)) + 1
    rng = random.Random(0)
    for _ in range(20):
        cuts = sorted(rng.sample(range(1, num_tokens + 1), min(3, num_tokens)))
        other = respond(await prepared(pipeline, **fields), text, cuts=cuts)
        for response in (whole, other):
            response.sampling.ClearField("seed")
        assert other == whole


async def test_logprobs_of_a_message_are_its_tokens(pipeline: ChatPipeline) -> None:
    """The tokens listed spell the text."""
    response = respond(await prepared(pipeline, logprobs={"topLogprobs": 0}), "hello there")
    (part,) = response.output[0].message.content
    assert b"".join(each.bytes for each in part.logprobs).decode() == part.text == "hello there"


async def test_answer_can_be_sent_back(pipeline: ChatPipeline) -> None:
    """A response's items, and an output for its call, are the next request's prompt as the template writes them."""
    response = respond(await prepared(pipeline, tools=TOOLS), f"<think>hm</think>Let me see.\n{CALL}")
    thought, message, call = response.output
    call.function_call.call_id = "1"
    text = {"role": "ROLE_ASSISTANT", "content": [{"text": message.message.content[0].text}]}
    items = [
        USER,
        {"reasoning": json_format.MessageToDict(thought.reasoning)},
        {"message": text},
        {"functionCall": json_format.MessageToDict(call.function_call)},
        {"functionCallOutput": {"callId": "1", "output": "rain"}},
    ]
    again = await prepared(pipeline, *items, tools=TOOLS)
    prompt = TOKENIZER.decode(again.generations[0].prompt_token_ids, skip_special_tokens=False)
    assert "<|im_start|>assistant\n<think>\nhm\n</think>\n\nLet me see.<tool_call>" in prompt
    assert "<|im_start|>tool\nrain<|im_end|>" in prompt


@pytest.mark.parametrize(
    ("item", "error", "field"),
    [
        ({"functionCallOutput": {"callId": "x"}}, InvalidRequest, "input[1].function_call_output.call_id"),
        (
            {"message": {"role": "ROLE_USER", "content": [{"text": "a"}, {"imageUrl": {"url": "data:,"}}]}},
            UnsupportedModality,
            "input[1].message.content[1].image_url",
        ),
    ],
)
async def test_errors_name_the_items(
    pipeline: ChatPipeline, item: Any, error: type[InvalidRequest], field: str
) -> None:
    """What the chat's own checks find is told by the item and its part."""
    with pytest.raises(error) as refusal:
        await prepared(pipeline, USER, item, instructions="I")
    assert refusal.value.field == field


async def test_truncated_input_loses_its_oldest_items(pipeline: ChatPipeline) -> None:
    """An input beyond the context keeps its instructions and what is newest."""
    long = {"message": {"role": "ROLE_USER", "content": [{"text": "word " * 1000}]}}
    options = {"errorBehavior": "ERROR_BEHAVIOR_TRUNCATE"}
    response = await prepared(pipeline, *[long] * 9, USER, instructions="Be kind.", serving=options)
    prompt = TOKENIZER.decode(response.generations[0].prompt_token_ids, skip_special_tokens=False)
    assert prompt.startswith("<|im_start|>system\nBe kind.")
    assert "user\nhello<|im_end|>" in prompt
    assert len(response.generations[0].prompt_token_ids) < 4096


async def test_prompt_that_is_too_long_is_the_inputs(pipeline: ChatPipeline) -> None:
    """Its length is counted over all items."""
    long = {"message": {"role": "ROLE_USER", "content": [{"text": "word " * 5000}]}}
    with pytest.raises(InvalidRequest) as refusal:
        await prepared(pipeline, USER, long)
    assert refusal.value.field == "input"


async def test_prepared_response_has_what_the_engine_and_telemetry_need(pipeline: ChatPipeline) -> None:
    """It is the chat's request, parameters and reasons; its cost before an error is an event."""
    response = await prepared(pipeline, maxOutputTokens=3, sampling={"temperature": 0.5})
    (generation,) = response.generations
    assert (generation.stopping.max_tokens, response.stopping.max_tokens) == (3, 3)
    assert response.sampling.temperature == 0.5
    assert response.prompt_fields == ("input",)
    assert response.finish_reasons() == []
    response.started(IDENTITY)
    (event,) = response.broken_off()
    assert event.usage == response.usage()
    assert event.usage.prompt_tokens == len(generation.prompt_token_ids)

"""Whole responses: from items to tokens, and from tokens to items."""

from __future__ import annotations

import random
from typing import Any, TypeAlias

import pytest
from google.protobuf import json_format
from sluice.v1 import response_event_pb2, response_item_pb2, response_pb2

from service.answering.kind import RESPONSE
from service.generation.errors import InvalidRequest, TemplateRejected, UnsupportedModality
from service.prompting.preparation import Preparation
from tests.service.contract.response_cases import check_order
from tests.service.output.fakes import outputs_of
from tests.service.preparation.fakes import END_ID, TOKENIZER, Exchange, exchange, preparation_of

Response: TypeAlias = Exchange[
    response_pb2.CreateResponseRequest,
    response_event_pb2.StreamResponseResponse,
    response_pb2.CreateResponseResponse,
]

USER = {"message": {"role": "ROLE_USER", "content": [{"text": "hello"}]}}
TOOLS = [{"function": {"name": "weather"}}]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


async def response_of(preparation: Preparation, *items: Any, **fields: Any) -> Response:
    request = response_pb2.CreateResponseRequest()
    json_format.ParseDict({"model": "tiny", "input": items or [USER], **fields}, request)
    return await exchange(preparation, RESPONSE, request)


def respond(response: Response, text: str, **how: Any) -> response_item_pb2.Response:
    """Return the response of a model that generates `text`; its events must be in order."""
    events = response.stream(outputs_of(TOKENIZER, [*TOKENIZER.encode(text), END_ID], **how))
    for number, event in enumerate(events):
        event.sequence_number = number
    check_order(events)
    for item in events[-1].completed.response.output:
        if item.HasField("function_call"):
            item.function_call.call_id = ""  # random
    return events[-1].completed.response


def prompt_of(response: Response) -> str:
    (generation,) = response.prepared.requests
    return TOKENIZER.decode(generation.prompt_token_ids, skip_special_tokens=False)


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
async def test_response_does_not_depend_on_the_grouping_of_tokens(
    preparation: Preparation, text: str, items: list[str]
) -> None:
    """However many tokens are in one output, the items, their logprobs and the usage are the same."""
    fields = {"tools": TOOLS, "logprobs": {"topLogprobs": 0}}
    whole = respond(await response_of(preparation, **fields), text)
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
        other = respond(await response_of(preparation, **fields), text, cuts=cuts)
        for response in (whole, other):
            response.sampling.ClearField("seed")
        assert other == whole


async def test_logprob_tokens_spell_the_messages_text(preparation: Preparation) -> None:
    """The tokens with logprobs spell the text."""
    response = respond(await response_of(preparation, logprobs={"topLogprobs": 0}), "hello there")
    (part,) = response.output[0].message.content
    assert b"".join(each.bytes for each in part.logprobs).decode() == part.text == "hello there"


async def test_unstreamed_response_is_the_fold_of_its_stream(preparation: Preparation) -> None:
    """The whole response and the stream contain the same values."""
    outputs = list(outputs_of(TOKENIZER, [*TOKENIZER.encode("<think>hm</think>Hello."), END_ID]))
    response = await response_of(preparation)
    *_, last = response.stream(outputs)
    assert (await response_of(preparation, sampling={"seed": "1"})).answer(outputs).response.output == (
        last.completed.response.output
    )


async def test_answer_is_valid_in_the_next_request(preparation: Preparation) -> None:
    """A response's items, and an output for its call, become the next prompt as the template writes them."""
    response = respond(await response_of(preparation, tools=TOOLS), f"<think>hm</think>Let me see.\n{CALL}")
    reasoning, message, call = response.output
    call.function_call.call_id = "1"
    text = {"role": "ROLE_ASSISTANT", "content": [{"text": message.message.content[0].text}]}
    items = [
        USER,
        {"reasoning": json_format.MessageToDict(reasoning.reasoning)},
        {"message": text},
        {"functionCall": json_format.MessageToDict(call.function_call)},
        {"functionCallOutput": {"callId": "1", "output": "rain"}},
    ]
    prompt = prompt_of(await response_of(preparation, *items, tools=TOOLS))
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
    preparation: Preparation, item: Any, error: type[InvalidRequest], field: str
) -> None:
    """Errors of the preparation name the item and its part."""
    with pytest.raises(error) as caught:
        await response_of(preparation, USER, item, instructions="I")
    assert caught.value.field == field


async def test_template_error_is_reported_for_the_input() -> None:
    """The template's message is reported for all items."""
    preparation = preparation_of("{{ raise_exception('No.') }}")
    with pytest.raises(TemplateRejected) as caught:
        await response_of(preparation)
    assert caught.value.field == "input"
    preparation.close()


async def test_truncated_input_loses_its_oldest_items(preparation: Preparation) -> None:
    """An input beyond the context keeps its instructions and the newest items."""
    long = {"message": {"role": "ROLE_USER", "content": [{"text": "word " * 1000}]}}
    options = {"errorBehavior": "ERROR_BEHAVIOR_TRUNCATE"}
    response = await response_of(preparation, *[long] * 9, USER, instructions="Be kind.", serving=options)
    prompt = prompt_of(response)
    assert prompt.startswith("<|im_start|>system\nBe kind.")
    assert "user\nhello<|im_end|>" in prompt
    assert len(response.prepared.requests[0].prompt_token_ids) < 4096


async def test_prompt_length_is_counted_over_all_items(preparation: Preparation) -> None:
    """The length is counted over all items."""
    long = {"message": {"role": "ROLE_USER", "content": [{"text": "word " * 5000}]}}
    with pytest.raises(InvalidRequest) as caught:
        await response_of(preparation, USER, long)
    assert caught.value.field == "input"


async def test_prepared_response_has_parameters_and_finish_reasons(preparation: Preparation) -> None:
    """A prepared response has parameters and reasons; its cost before an error is an event."""
    response = await response_of(preparation, maxOutputTokens=3, sampling={"temperature": 0.5})
    (generation,) = response.prepared.requests
    assert (generation.stopping.max_tokens, response.prepared.stopping.max_tokens) == (3, 3)
    assert response.prepared.sampling.temperature == 0.5
    assert generation.prompt_field == "input"
    assert response.reader.finish_reasons() == []
    response.started()
    (event,) = response.broken_off()
    assert event.usage.prompt_tokens == response.reader.usage().prompt_tokens == len(generation.prompt_token_ids)

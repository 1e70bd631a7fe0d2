"""Constrained answers of the bundled model in a real engine are valid, whatever else is in the batch."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import jsonschema
import pytest
from sluice.v1 import chat_pb2, sampling_pb2, tool_pb2

from service.answering.kind import CHAT
from service.engine.building.engines import build_engine
from service.engine.client.generator import GeneratorClient
from service.engine.interface.config import EngineConfig
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import EngineOverloaded
from service.prompting.preparation import Preparation
from service.prompts.templates.template import ChatTemplate
from tests.engine.constraints.random_schemas import Schema, random_schema
from tests.service.contract.fakes import chat_request, function, user
from tests.service.preparation.fakes import chat_model_of, exchange, preparation_of
from tests.service.prompts.fakes import DEMO

NUM_REQUESTS = 200
MAX_TOKENS = 96
Case = tuple[chat_pb2.ChatRequest, dict[str, Schema]]  # a request, and the schema by function; "" for the content


@pytest.fixture
async def served() -> AsyncIterator[tuple[GeneratorClient, Preparation]]:
    """Yield the model in an engine whose cache holds a part of the concurrent requests."""
    tokenizer = FastTokenizer.from_folder(DEMO)
    preparation = preparation_of(ChatTemplate.from_folder(DEMO), tokenizer)
    built = build_engine(
        str(DEMO),
        EngineConfig(num_blocks=256, max_batch_sequences=16, num_threads=1),
        control_token_ids=chat_model_of(preparation).control_token_ids,
    )
    async with built.engine as engine:
        yield engine, preparation
        stats = engine.stats()
        assert (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)
    preparation.close()


def random_case(rng: random.Random) -> Case:
    """Return a request for JSON of a random schema, or one that requires calls of some random tools."""
    fields: dict[str, Any] = {
        "n": rng.choice([1, 1, 1, 1, 1, 2]),
        "sampling": sampling_pb2.SamplingParams(
            temperature=rng.choice([0, 0.7, 1, 1.5]),
            top_p=rng.choice([0.9, 1]),
            seed=rng.getrandbits(64),
            watermark=rng.random() < 0.2,
        ),
        "stopping": sampling_pb2.StopParams(max_tokens=MAX_TOKENS),
        "logprobs": rng.choice([None, {"top_logprobs": 2}]),
        "reasoning_effort": rng.choice([chat_pb2.REASONING_EFFORT_UNSPECIFIED, chat_pb2.REASONING_EFFORT_NONE]),
    }
    if rng.random() < 0.5:
        schema = random_schema(rng)
        fields["output_constraint"] = sampling_pb2.OutputConstraint(
            json_schema=sampling_pb2.JsonSchema(name="s", schema=json.dumps(schema), strict=rng.random() < 0.5)
        )
        schemas = {"": schema}
    else:
        schemas = {f"tool_{i}": _parameters(rng) for i in range(rng.randint(1, 3))}
        fields["tools"] = [function(name, json.dumps(schema)) for name, schema in schemas.items()]
        fields["tool_choice"] = tool_pb2.ToolChoice(mode=tool_pb2.TOOL_CHOICE_MODE_REQUIRED)
        fields["parallel_tool_calls"] = rng.choice([None, False])
    return chat_request(user(rng.choice(["Hello!", "Give me the data.", "What now?"])), **fields), schemas


def _parameters(rng: random.Random) -> Schema:
    properties = {name: random_schema(rng, 2) for name in rng.sample(["city", "days", "unit"], rng.randint(1, 3))}
    return {"type": "object", "properties": properties, "required": rng.sample(sorted(properties), 1)}


async def answer(
    engine: GeneratorClient, preparation: Preparation, request: chat_pb2.ChatRequest
) -> chat_pb2.ChatResponse:
    """Return the answer as the fold of its stream. Retry while the engine is busy, as clients do."""
    asked = await exchange(preparation, CHAT, request)
    while True:
        with suppress(EngineOverloaded):
            async with engine.generate(*asked.prepared.requests) as outputs:
                return asked.answer([output async for output in outputs])
        await asyncio.sleep(0.1)  # an engine that is overloaded rejects immediately


def ends_well(choice: chat_pb2.ChatChoice, schemas: dict[str, Schema], request: chat_pb2.ChatRequest) -> bool:
    """Fail unless the answer is valid; return True if it ended by itself."""
    is_limited = choice.finish_reason == chat_pb2.FINISH_REASON_LENGTH
    calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls]
    if "" in schemas:
        assert is_limited or choice.finish_reason == chat_pb2.FINISH_REASON_STOP
        calls = [("", "".join(part.text for part in choice.message.content))]
    else:
        assert is_limited or choice.finish_reason == chat_pb2.FINISH_REASON_TOOL_CALLS
        assert not choice.message.content
        assert calls
        assert len(calls) == 1 or not request.HasField("parallel_tool_calls")
    for name, arguments in calls:
        jsonschema.validate(json.loads(arguments), schemas[name], jsonschema.Draft202012Validator)
    return not is_limited


@pytest.mark.long
async def test_constrained_answers_hold_for_200_random_requests(served: tuple[GeneratorClient, Preparation]) -> None:
    """Schemas and required calls, 12 requests at a time: each answer is valid, nearly all at their limit."""
    engine, preparation = served
    rng = random.Random(4)
    cases = [random_case(rng) for _ in range(NUM_REQUESTS)]
    slots = asyncio.Semaphore(12)
    broken: list[chat_pb2.ChatChoice] = []

    async def run(case: Case) -> list[bool]:
        request, schemas = case
        async with slots:
            response = await answer(engine, preparation, request)
        assert len(response.choices) == (request.n or 1)
        ends = []
        for choice in response.choices:
            try:
                ends.append(ends_well(choice, schemas, request))
            except json.JSONDecodeError:  # without a known ending the answer may be truncated
                assert choice.finish_reason == chat_pb2.FINISH_REASON_LENGTH
                broken.append(choice)
        return ends

    ends = [end for answers in await asyncio.gather(*map(run, cases)) for end in answers]
    assert sum(ends) > 0.5 * len(ends)
    assert len(broken) < 0.08 * len(ends)

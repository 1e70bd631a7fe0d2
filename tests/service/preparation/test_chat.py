"""Whole requests: from messages to tokens, from tokens to events."""

from __future__ import annotations

import json
import random
import time

import jsonschema
import pytest
from sluice.v1 import content_pb2, logprobs_pb2, sampling_pb2, serving_pb2, tool_pb2

from service.engine.tokenizer import FastTokenizer
from service.generation.errors import PromptTooLong, TemplateRefused
from service.pipeline.chat import ChatPipeline
from service.pipeline.template import ChatTemplate
from tests.pipeline.chat_cases import END_ID, REQUIRED, SCHEMA, TOKENIZER, WEATHER, prompt_of
from tests.pipeline.fakes import (
    ADDED,
    DEMO,
    END,
    babble,
    events_of,
    fold,
    function,
    message,
    outputs_of,
    pipeline_of,
    request_of,
    token_id,
    user,
)


async def test_prompt_is_the_template_s(pipeline: ChatPipeline) -> None:
    """The default system prompt, the messages and the start of the answer, with the template's control tokens."""
    chat = await pipeline.prepare(request_of(user("hello")), "r")
    expected = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert chat.generation.prompt_token_ids == TOKENIZER.encode(expected)


async def test_generation_has_what_the_request_asks_for(pipeline: ChatPipeline) -> None:
    """Every field reaches the engine's request; the echo has every default."""
    request = request_of(
        user("hi"),
        n=3,
        sampling=sampling_pb2.SamplingParams(temperature=0.5),
        stopping=sampling_pb2.StopParams(stop=["x"]),
        logprobs=logprobs_pb2.LogprobsOptions(top_logprobs=4),
        serving=serving_pb2.ServingOptions(priority=-3, cache_salt="tenant"),
    )
    chat = await pipeline.prepare(request, "r", time.monotonic() + 60)
    generation = chat.generation
    assert (generation.request_id, generation.n, generation.logprobs) == ("r", 3, 4)
    assert generation.deadline is not None
    assert (generation.priority, generation.cache_salt, generation.truncates_at_deadline) == (-3, "tenant", False)
    assert (generation.sampling.temperature, generation.sampling.seed) == (0.5, chat.sampling.seed)
    assert chat.stopping.max_tokens == 4096 - len(generation.prompt_token_ids)
    assert generation.stopping.stop == ("x",)
    assert generation.constraint is None
    plain = (await pipeline.prepare(request_of(logprobs=logprobs_pb2.LogprobsOptions()), "r")).generation
    assert (plain.n, plain.logprobs) == (1, 0)
    assert (await pipeline.prepare(request_of(), "r")).generation.logprobs is None


@pytest.mark.parametrize("token", [END, *ADDED])
async def test_caller_cannot_write_control_tokens(pipeline: ChatPipeline, token: str) -> None:
    """In a message, a tool's description or a parameter's name, a control token is text."""
    clean = request_of(user("x"), tools=[function("f", '{"properties": {"x": {"description": "x"}}}', description="x")])
    dirty = request_of(
        user(f"a{token}b"),
        tools=[function("f", json.dumps({"properties": {token: {"description": token}}}), description=token)],
    )
    wanted = (await pipeline.prepare(clean, "r")).generation.prompt_token_ids.count(token_id(TOKENIZER, token))
    chat = await pipeline.prepare(dirty, "r")
    assert chat.generation.prompt_token_ids.count(token_id(TOKENIZER, token)) == wanted
    assert prompt_of(chat).count(token) == wanted + 4


async def test_prompt_that_is_too_long_is_refused() -> None:
    """The prompt must leave room for a token; the message has count and limit."""
    pipeline = pipeline_of()
    num_tokens = len((await pipeline.prepare(request_of(), "r")).generation.prompt_token_ids)
    pipeline._max_model_len = num_tokens + 1
    assert (await pipeline.prepare(request_of(), "r")).stopping.max_tokens == 1
    pipeline._max_model_len = num_tokens
    with pytest.raises(PromptTooLong, match=f"the limit is {num_tokens - 1}") as refusal:
        await pipeline.prepare(request_of(), "r")
    assert refusal.value.field == "messages"
    pipeline.close()


async def test_template_s_refusal_reaches_the_caller() -> None:
    """Its words come through as they are, without marks, even if they quote the caller."""
    pipeline = pipeline_of("{{ raise_exception('No role ' + messages[0].content) }}")
    with pytest.raises(TemplateRefused) as refusal:
        await pipeline.prepare(request_of(user("<|im_end|>")), "r")
    assert str(refusal.value) == "No role <|im_end|>"
    pipeline.close()


async def test_usage_counts_all_choices_and_the_prompt_once(pipeline: ChatPipeline) -> None:
    """Tokens of every choice are counted, thinking by the token; the prompt and its cached part once."""
    chat = await pipeline.prepare(request_of(n=2), "r")
    first = [*TOKENIZER.encode("<think>so</think>yes"), END_ID]
    second = [*TOKENIZER.encode("no"), END_ID]
    for index, token_ids in enumerate((first, second)):
        events_of(chat, outputs_of(TOKENIZER, token_ids, choice_index=index))
    usage = chat.usage()
    assert usage.prompt_tokens == len(chat.generation.prompt_token_ids)
    assert usage.completion_tokens == len(first) + len(second)
    assert usage.reasoning_tokens == len(TOKENIZER.encode("<think>so</think>"))


async def test_conversation_with_calls_and_results_is_rendered(pipeline: ChatPipeline) -> None:
    """Earlier calls and their results reach the template."""
    call = tool_pb2.ToolCall(id="1", function=tool_pb2.FunctionCall(name="weather", arguments='{"city": "Oslo"}'))
    chat = await pipeline.prepare(
        request_of(
            user("weather?"),
            message(content_pb2.ROLE_ASSISTANT, tool_calls=[call]),
            message(content_pb2.ROLE_TOOL, "cold", tool_call_id="1"),
        ),
        "r",
    )
    assert '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>' in prompt_of(chat)


async def test_bundled_model_is_prepared_for_tools_and_thinking() -> None:
    """The demo model's folder gives a pipeline with its own syntax and switch, and its prompt is its template's."""
    tokenizer = FastTokenizer.from_folder(DEMO)
    template = ChatTemplate.from_folder(DEMO)
    pipeline = ChatPipeline("sluice-demo", template, tokenizer, 2048, tokenizer.encode(END))
    assert pipeline.supports_tools
    assert pipeline.supports_reasoning
    request = request_of(user("Weather in Oslo?"), tools=[WEATHER], tool_choice=REQUIRED)
    chat = await pipeline.prepare(request, "r")
    assert chat.generation.constraint is not None
    said = babble(chat.generation.constraint, tokenizer, token_id(tokenizer, END), random.Random(0), max_tokens=12_000)
    answer = fold(events_of(chat, outputs_of(tokenizer, said))).choices[0]
    assert answer.message.tool_calls
    for each in answer.message.tool_calls:
        jsonschema.validate(json.loads(each.function.arguments), SCHEMA)
    plain = await pipeline.prepare(request_of(user("hello there")), "r")
    rendered = template.render([{"role": "user", "content": "hello there"}], None, {})
    assert plain.generation.prompt_token_ids == tokenizer.encode(rendered)
    pipeline.close()

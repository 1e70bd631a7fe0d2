"""Whole requests: from messages to tokens, from tokens to events."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from sluice.v1 import chat_pb2, content_pb2, logprobs_pb2, sampling_pb2, tool_pb2

from service.engine.errors import DeadlineExceeded, InvalidRequest, PromptTooLong
from service.engine.tokenizer import FastTokenizer
from service.pipeline.chat import ChatPipeline, PipelineLimits
from service.pipeline.errors import TemplateRefused, UnsupportedConstraint, UnsupportedFeature
from service.pipeline.fold import fold
from service.pipeline.prepared_chat import PreparedChat
from service.pipeline.template import ChatTemplate
from service.pipeline.thinking import ReasoningBudgets
from tests.pipeline.fakes import (
    ADDED,
    CHATML,
    DEMO,
    END,
    allowed_ids,
    babble,
    events_of,
    function,
    message,
    outputs_of,
    pipeline_of,
    request_of,
    token_id,
    tokenizer_of,
    user,
)

TOKENIZER = tokenizer_of(*ADDED)
END_ID = token_id(TOKENIZER, END)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city", "days"],
}
WEATHER = function("weather", json.dumps(SCHEMA))
REQUIRED = tool_pb2.ToolChoice(mode=tool_pb2.TOOL_CHOICE_MODE_REQUIRED)
NONE = tool_pb2.ToolChoice(mode=tool_pb2.TOOL_CHOICE_MODE_NONE)


@pytest.fixture(scope="module")
def pipeline() -> Iterator[ChatPipeline]:
    """A pipeline over ChatML and a small tokenizer."""
    pipeline = pipeline_of(default_system_prompt="Be kind.", budgets=ReasoningBudgets(low=4, medium=40, high=None))
    yield pipeline
    pipeline.close()


def prompt_of(chat: PreparedChat, tokenizer: FastTokenizer = TOKENIZER) -> str:
    return tokenizer.decode(chat.generation.prompt_token_ids, skip_special_tokens=False)


def answer_of(chat: PreparedChat, text: str) -> chat_pb2.ChatChoice:
    """What becomes of a model that says `text`."""
    return fold(events_of(chat, outputs_of(TOKENIZER, [*TOKENIZER.encode(text), END_ID]))).choices[0]


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
    )
    chat = await pipeline.prepare(request, "r", time.monotonic() + 60)
    generation = chat.generation
    assert (generation.request_id, generation.n, generation.logprobs) == ("r", 3, 4)
    assert generation.deadline is not None
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


async def test_endless_template_ends_its_request_only() -> None:
    """A template that never ends is left to its thread; the loop goes on, and so do other requests."""
    release = threading.Event()
    template = pipeline_of()._template
    pipeline = pipeline_of(limits=PipelineLimits(max_render_s=0.2))
    pipeline._template = _Stuck(template, release)  # type: ignore[assignment]
    try:
        with pytest.raises(TemplateRefused, match=r"longer than 0\.2 s"):
            await pipeline.prepare(request_of(user("stuck")), "r")
        pipeline._limits = PipelineLimits()
        assert (await pipeline.prepare(request_of(user("fine")), "r")).generation.prompt_token_ids
    finally:
        release.set()
        pipeline.close()


class _Stuck:
    """A template that hangs on one message until it is released."""

    def __init__(self, template: ChatTemplate, release: threading.Event) -> None:
        self.source, self.variables = template.source, template.variables
        self._template, self._release = template, release

    def render(self, messages: list[dict[str, Any]], *rest: Any) -> str:
        if messages[-1]["content"] == "stuck":
            self._release.wait(30)
        return self._template.render(messages, *rest)


async def test_deadline_ends_the_preparation(pipeline: ChatPipeline) -> None:
    """A request whose deadline has passed isn't prepared."""
    with pytest.raises(DeadlineExceeded):
        await pipeline.prepare(request_of(), "r", time.monotonic() - 1)


async def test_compilation_has_a_time_limit() -> None:
    """A constraint that takes too long is the request's fault, and named."""
    pipeline = pipeline_of(limits=PipelineLimits(max_compile_s=0.1))
    release = threading.Event()
    pipeline._compiler.compile = lambda grammar: release.wait(30)  # type: ignore[assignment, method-assign, return-value]
    request = request_of(output_constraint=sampling_pb2.OutputConstraint(regex="a"))
    with pytest.raises(UnsupportedConstraint, match=r"longer than 0\.1 s") as refusal:
        await pipeline.prepare(request, "r")
    assert refusal.value.field == "output_constraint.regex"
    release.set()
    pipeline.close()


async def test_loop_runs_while_a_template_does() -> None:
    """Nothing of the preparation's work holds up the loop."""
    pipeline = pipeline_of()
    release = threading.Event()
    pipeline._template = _Stuck(pipeline._template, release)  # type: ignore[assignment]
    preparing = asyncio.create_task(pipeline.prepare(request_of(user("stuck")), "r"))
    await asyncio.sleep(0.01)
    assert not preparing.done()
    release.set()
    await preparing
    pipeline.close()


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


@pytest.mark.parametrize(
    ("effort", "ends_with", "num_thought"),
    [
        (chat_pb2.REASONING_EFFORT_UNSPECIFIED, "assistant\n", None),
        (chat_pb2.REASONING_EFFORT_NONE, "<think>\n\n</think>\n\n", None),
        (chat_pb2.REASONING_EFFORT_LOW, "assistant\n", 4),
        (chat_pb2.REASONING_EFFORT_MEDIUM, "assistant\n", 40),
        (chat_pb2.REASONING_EFFORT_HIGH, "assistant\n", 300),
    ],
)
async def test_effort_is_switch_and_budget(
    pipeline: ChatPipeline, effort: chat_pb2.ReasoningEffort, ends_with: str, num_thought: int | None
) -> None:
    """The effort reaches the template's switch, opens the thinking and bounds its tokens."""
    chat = await pipeline.prepare(request_of(reasoning_effort=effort), "r")
    assert prompt_of(chat).endswith(ends_with)
    constraint = chat.generation.constraint
    if num_thought is None:
        assert constraint is None
        return
    assert constraint is not None
    (letter,) = TOKENIZER.encode("x")
    said: list[int] = []
    while len(said) < 400:
        allowed = allowed_ids(constraint, TOKENIZER)
        said.append(allowed[0] if len(allowed) == 1 else letter)
        constraint.accept(said[-1])
    answer = fold(events_of(chat, outputs_of(TOKENIZER, [*said, END_ID]))).choices[0]
    thought = answer.message.reasoning
    assert len(thought) == num_thought if num_thought < 300 else len(thought) > 300


async def test_template_that_opens_the_thinking_itself() -> None:
    """Where the prompt ends with the opening marker, the answer begins inside the thinking; NONE closes it at once."""
    pipeline = pipeline_of(CHATML.split("{%- if enable_thinking")[0] + "{{ '<think>\n' }}")
    assert not pipeline.supports_reasoning
    chat = await pipeline.prepare(request_of(), "r")
    answer = answer_of(chat, "so\n</think>\n\nHi")
    assert (answer.message.reasoning, answer.message.content[0].text) == ("so", "Hi")
    chat = await pipeline.prepare(request_of(reasoning_effort=chat_pb2.REASONING_EFFORT_NONE), "r")
    assert chat.generation.constraint is not None
    assert allowed_ids(chat.generation.constraint, TOKENIZER) == [token_id(TOKENIZER, "</think>")]
    pipeline.close()


async def test_thinking_is_not_forced_on_a_model_without_a_switch() -> None:
    """A template that only shows earlier thinking tells nothing of whether the model thinks: it may, it needn't."""
    pipeline = pipeline_of(CHATML.split("{%- if enable_thinking")[0])
    chat = await pipeline.prepare(request_of(reasoning_effort=chat_pb2.REASONING_EFFORT_LOW), "r")
    assert chat.generation.constraint is not None
    assert len(allowed_ids(chat.generation.constraint, TOKENIZER)) > 100
    pipeline.close()


async def test_effort_is_ignored_by_a_model_that_does_not_think() -> None:
    """A template without thinking takes any effort and answers as ever."""
    pipeline = pipeline_of("{{ messages[0].content }}")
    chat = await pipeline.prepare(request_of(reasoning_effort=chat_pb2.REASONING_EFFORT_HIGH), "r")
    assert chat.generation.constraint is None
    assert answer_of(chat, "<think>a</think>b").message.content[0].text == "<think>a</think>b"
    pipeline.close()


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

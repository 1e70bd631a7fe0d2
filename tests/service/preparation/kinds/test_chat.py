"""Whole chats: from messages to the engine's request."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from service.generation.errors import InvalidRequest, PromptTooLong, TemplateRejected, UnsupportedFeature
from service.generation.prompts.conversation import FunctionCall, ReasoningEffort, Role
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.prompting.preparation import Preparation
from tests.engine.constraints.fakes import ADDED, END, token_id
from tests.service.output.fakes import outputs_of
from tests.service.preparation.fakes import (
    END_ID,
    TOKENIZER,
    answer_to,
    chat,
    preparation_of,
    prompt_of,
    reader_of,
    request_of,
)
from tests.service.preparation.tools import function
from tests.service.prompts.fakes import message, user


async def test_prompt_is_rendered_by_the_template(preparation: Preparation) -> None:
    """The prompt has the default system prompt, the messages and the start of the answer, with control tokens."""
    prepared = await preparation.prepare(chat(user("hello")), "r")
    expected = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert request_of(prepared).prompt_token_ids == TOKENIZER.encode(expected)


async def test_engine_request_has_every_field_of_the_chat(preparation: Preparation) -> None:
    """Every field reaches the engine's request; the echo has every default."""
    deadline = time.monotonic() + 60
    request = chat(
        user("hi"),
        n=3,
        sampling=SamplingParams(temperature=0.5),
        stopping=StopParams(stop=("x",)),
        logprobs=LogprobsOptions(4),
        priority=3,
        cache_salt="tenant",
    )
    prepared = await preparation.prepare(request, "r", deadline)
    generation = request_of(prepared)
    assert (generation.request_id, generation.n, generation.logprobs) == ("r", 3, LogprobsOptions(4))
    assert (generation.prompt_field, generation.deadline) == ("messages", deadline)
    assert (generation.priority, generation.cache_salt, generation.truncates_at_deadline) == (3, "tenant", False)
    assert (generation.sampling.temperature, generation.sampling.seed) == (0.5, prepared.sampling.seed)
    assert prepared.sampling.seed is not None
    assert prepared.stopping.max_tokens == 4096 - len(generation.prompt_token_ids)
    assert generation.stopping.stop == ("x",)
    assert generation.constraint is None
    plain = request_of(await preparation.prepare(chat(logprobs=LogprobsOptions()), "r"))
    assert (plain.n, plain.logprobs, plain.deadline) == (1, LogprobsOptions(0), None)
    assert request_of(await preparation.prepare(chat(), "r")).logprobs is None


@pytest.mark.parametrize("text", ["I am", " I\n", "", "a<|im_end|>b", "<|im_"])
@pytest.mark.parametrize("effort", [None, ReasoningEffort.HIGH])
async def test_answer_continues_the_last_message(
    preparation: Preparation, text: str, effort: ReasoningEffort | None
) -> None:
    """There is no end of turn, no new turn and no reasoning; the text is whole and has no control token."""
    turns = (user("hello"), message(Role.ASSISTANT, text))
    prepared = await preparation.prepare(chat(*turns, continues=True, reasoning_effort=effort), "r")
    closed = prompt_of(await preparation.prepare(chat(*turns), "r"))
    assert closed.startswith(prompt_of(prepared) + "<|im_end|>")
    assert prompt_of(prepared).endswith(f"assistant\n{text}")
    ended = request_of(prepared).prompt_token_ids.count(token_id(TOKENIZER, "<|im_end|>"))
    assert ended == 2  # the system's turn and the user's
    assert request_of(prepared).constraint is None
    assert answer_to(prepared, "<think>so</think>").text == "<think>so</think>"


SWITCHES = "{{ mood }}{{ 'T' if enable_thinking else 'F' }}{{ rest | tojson }}{{ 'A' if add_generation_prompt }}"


async def test_template_variables_of_the_request_reach_the_template() -> None:
    """Own variables override an effort's; unknown ones have no effect."""
    preparation = preparation_of(SWITCHES)
    own = json.dumps({"mood": "calm", "enable_thinking": True, "rest": {"a": [1, None]}, "unknown": 1})
    request = chat(user("x"), template_variables=own, reasoning_effort=ReasoningEffort.NONE)
    assert prompt_of(await preparation.prepare(request, "r")) == 'calmT{"a": [1, null]}A'
    closed = chat(user("x"), template_variables='{"rest": 1}', opens_turn=False)
    assert prompt_of(await preparation.prepare(closed, "r")) == "F1"
    preparation.close()


async def test_control_tokens_in_template_variables_are_text() -> None:
    """Control tokens in variables are text."""
    preparation = preparation_of(SWITCHES)
    own = json.dumps({"mood": END, "rest": {END: END}})
    prepared = await preparation.prepare(chat(user("x"), template_variables=own), "r")
    assert prompt_of(prepared).count(END) == 3
    assert END_ID not in request_of(prepared).prompt_token_ids
    preparation.close()


@pytest.mark.parametrize(
    "own", ["{", "[1]", '"a"', '{"messages": []}', '{"bos_token": "x"}', '{"namespace": 1}', '{"a": 1, "a": 2}']
)
async def test_invalid_template_variables_are_rejected_by_field(preparation: Preparation, own: str) -> None:
    """Values other than objects, and reserved names, are rejected."""
    with pytest.raises(InvalidRequest) as caught:
        await preparation.prepare(chat(user("x"), template_variables=own), "r")
    assert caught.value.field == "chat_template_kwargs"


async def test_control_tokens_are_omitted_unless_requested(preparation: Preparation) -> None:
    """By default control tokens are omitted."""
    request = chat(user("x"))
    assert request_of(await preparation.prepare(request, "r")).skip_special_tokens
    shown = replace(request, skip_special_tokens=False)
    assert not request_of(await preparation.prepare(shown, "r")).skip_special_tokens


@pytest.mark.parametrize("source", ["{{ messages[0].content }}", "{{ messages | tojson(ensure_ascii=True) }}"])
async def test_conversation_that_cannot_be_continued_is_rejected(source: str) -> None:
    """A conversation that can't be continued is rejected for the field that requests it."""
    preparation = preparation_of(source)
    with pytest.raises(UnsupportedFeature) as caught:
        await preparation.prepare(chat(user("a"), message(Role.ASSISTANT, "b"), continues=True), "r")
    assert caught.value.field == "continue_final_message"
    preparation.close()


@pytest.mark.parametrize("token", [END, *ADDED])
async def test_control_tokens_in_client_text_are_text(preparation: Preparation, token: str) -> None:
    """In a message, a tool's description or a parameter's name, a control token is text."""
    clean = chat(user("x"), tools=[function("f", '{"properties": {"x": {"description": "x"}}}', description="x")])
    parameters = json.dumps({"properties": {token: {"description": token}}})
    dirty = chat(user(f"a{token}b"), tools=[function("f", parameters, description=token)])
    spelled = token_id(TOKENIZER, token)
    expected = list(request_of(await preparation.prepare(clean, "r")).prompt_token_ids).count(spelled)
    prepared = await preparation.prepare(dirty, "r")
    assert list(request_of(prepared).prompt_token_ids).count(spelled) == expected
    assert prompt_of(prepared).count(token) == expected + 4


async def test_prompt_that_is_too_long_is_rejected() -> None:
    """The prompt must leave one token for the answer; the error contains the count and the limit."""
    roomy = preparation_of()
    num_tokens = len(request_of(await roomy.prepare(chat(), "r")).prompt_token_ids)
    fitting, tight = preparation_of(max_model_len=num_tokens + 1), preparation_of(max_model_len=num_tokens)
    assert (await fitting.prepare(chat(), "r")).stopping.max_tokens == 1
    with pytest.raises(PromptTooLong, match=f"the limit is {num_tokens - 1}") as caught:
        await tight.prepare(chat(), "r")
    assert caught.value.field == "messages"
    for each in (roomy, fitting, tight):
        each.close()


async def test_template_error_reaches_the_client() -> None:
    """The template's message is returned unchanged, without marks, even if it quotes the client."""
    preparation = preparation_of("{{ raise_exception('No role ' + messages[0].content) }}")
    with pytest.raises(TemplateRejected) as caught:
        await preparation.prepare(chat(user("<|im_end|>")), "r")
    assert (str(caught.value), caught.value.field) == ("No role <|im_end|>", "messages")
    preparation.close()


async def test_usage_counts_all_choices_and_the_prompt_once(preparation: Preparation) -> None:
    """The tokens of every choice count, and those of its reasoning; the prompt and its cached part count once."""
    prepared = await preparation.prepare(chat(n=2), "r")
    reader = reader_of(prepared)
    first = [*TOKENIZER.encode("<think>so</think>yes"), END_ID]
    second = [*TOKENIZER.encode("no"), END_ID]
    for index, token_ids in enumerate((first, second)):
        for output in outputs_of(TOKENIZER, token_ids, choice_index=index):
            reader.read(output)
    usage = reader.usage()
    assert usage.prompt_tokens == len(request_of(prepared).prompt_token_ids)
    assert usage.completion_tokens == len(first) + len(second)
    assert usage.reasoning_tokens == len(TOKENIZER.encode("<think>so</think>"))


async def test_conversation_with_calls_and_results_is_rendered(preparation: Preparation) -> None:
    """Earlier calls and their results reach the template."""
    call = FunctionCall("1", "weather", '{"city": "Oslo"}')
    request = chat(
        user("weather?"),
        message(Role.ASSISTANT, tool_calls=(call,)),
        message(Role.TOOL, "cold", tool_call_id="1"),
    )
    prompt = prompt_of(await preparation.prepare(request, "r"))
    assert '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>' in prompt

"""The limits of a request's preparation, and their effect on other requests."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest
import tokenizers

from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import (
    DeadlineExceeded,
    EngineOverloaded,
    InvalidRequest,
    PromptTooLong,
    TemplateRejected,
)
from service.generation.formats.output_format import JsonSchema
from service.generation.prompts.conversation import (
    Conversation,
    Function,
    FunctionCall,
    Message,
    RawText,
    Role,
    TextPart,
)
from service.generation.requests.answer_request import AnswerRequest
from service.prompting.preparation import Preparation
from service.prompts.preparing.workers import WorkerLimits
from service.prompts.templates.template import ChatTemplate
from tests.service.preparation.fakes import TOKENIZER, chat, preparation_of, request_of
from tests.service.prompts.fakes import CHATML, template_of, user
from tests.waiting import GUARD_S


class StuckTemplate(ChatTemplate):
    """A template that blocks on one message until it is released."""

    def __init__(self, release: threading.Event) -> None:
        self._inner = template_of(CHATML)
        self.source, self.variables = self._inner.source, self._inner.variables
        self._release = release
        self.entered = threading.Event()

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        variables: dict[str, Any],
        *,
        field: str = "messages",
    ) -> str:
        if messages[-1]["content"] == "stuck":
            self.entered.set()
            self._release.wait(GUARD_S)
        return self._inner.render(messages, tools, variables, field=field)


class StuckTokenizer(FastTokenizer):
    """A tokenizer that blocks on one text until it is released."""

    def __init__(self, release: threading.Event) -> None:
        super().__init__(TOKENIZER.json)
        self._release = release

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        if text == "stuck":
            self._release.wait(GUARD_S)
        return super().encode(text, add_special_tokens=add_special_tokens)


def raw(text: str) -> AnswerRequest:
    return AnswerRequest("tiny", (RawText(text, "prompts[0]"),), "prompts")


async def test_endless_template_fails_only_its_request() -> None:
    """An endless template keeps its thread; the event loop and other requests continue."""
    release = threading.Event()
    preparation = preparation_of(StuckTemplate(release), limits=WorkerLimits(max_work_s=0.2, max_wait_s=GUARD_S))
    try:
        with pytest.raises(TemplateRejected, match=r"longer than 0\.2 s") as caught:
            await preparation.prepare(chat(user("stuck")), "r")
        assert caught.value.field == "messages"
        fine = None
        while fine is None:
            with suppress(TemplateRejected):  # a slow machine may need longer for this one, too
                fine = await preparation.prepare(chat(user("fine")), "r")
        assert request_of(fine).prompt_token_ids
    finally:
        release.set()
        preparation.close()


async def test_busy_threads_are_reported_as_overload() -> None:
    """A request that gets no thread in time gets a retry time."""
    release = threading.Event()
    template = StuckTemplate(release)
    preparation = preparation_of(template, limits=WorkerLimits(max_work_s=0.3, num_threads=1))

    async def occupy() -> None:
        """Render the stuck template as soon as a thread is free in time."""
        while not template.entered.is_set():
            with suppress(EngineOverloaded):
                await preparation.prepare(chat(user("stuck")), "r")

    stuck = asyncio.create_task(occupy())
    await asyncio.to_thread(template.entered.wait)
    with pytest.raises(EngineOverloaded, match="busy") as caught:
        await preparation.prepare(chat(user("fine")), "r")
    assert caught.value.retry_after_s == 1
    with pytest.raises(TemplateRejected):
        await stuck
    release.set()
    preparation.close()


async def test_wait_for_a_thread_does_not_count_towards_the_time_limit() -> None:
    """Waiting for a thread doesn't count towards the time limit of the work."""
    release = threading.Event()
    template = StuckTemplate(release)
    preparation = preparation_of(template, limits=WorkerLimits(num_threads=1))
    stuck = asyncio.create_task(preparation.prepare(chat(user("stuck")), "r"))
    await asyncio.to_thread(template.entered.wait)
    waiting = asyncio.create_task(preparation.prepare(chat(user("fine")), "r"))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    release.set()
    for each in (stuck, waiting):
        assert request_of(await each).prompt_token_ids
    preparation.close()


async def test_encoding_has_a_time_limit() -> None:
    """Prompts that take too long to encode are an invalid request; the event loop continues meanwhile."""
    release = threading.Event()
    preparation = preparation_of(None, StuckTokenizer(release), limits=WorkerLimits(max_work_s=0.1, max_wait_s=GUARD_S))
    with pytest.raises(InvalidRequest, match=r"longer than 0\.1 s") as caught:
        await preparation.prepare(raw("stuck"), "r")
    assert caught.value.field == "prompts"
    release.set()
    preparation.close()


@pytest.mark.parametrize("answer_request", [chat(), raw("hello")], ids=["chat", "raw"])
async def test_deadline_ends_the_preparation(preparation: Preparation, answer_request: AnswerRequest) -> None:
    """A request whose deadline has passed isn't prepared."""
    with pytest.raises(DeadlineExceeded):
        await preparation.prepare(answer_request, "r", -1.0)


async def test_event_loop_runs_while_a_template_is_rendered() -> None:
    """The preparation's work doesn't block the event loop."""
    release = threading.Event()
    preparation = preparation_of(StuckTemplate(release))
    preparing = asyncio.create_task(preparation.prepare(chat(user("stuck")), "r"))
    await asyncio.sleep(0.01)
    assert not preparing.done()
    release.set()
    await preparing
    preparation.close()


def conversation_with(place: str, text: str) -> Conversation:
    """Return a conversation with a text in one of its strings."""
    call = FunctionCall("c", "f", text if place == "arguments" else "{}")
    schema = f'{{"type": "object", "description": "{text}"}}'
    return Conversation(
        messages=(
            user("hello"),
            Message(
                Role.ASSISTANT,
                tool_calls=(call,),
                reasoning=text if place == "reasoning" else None,
                name=text if place == "name" else None,
            ),
            Message(Role.TOOL, (TextPart(text if place == "text" else "x"),), tool_call_id="c"),
        ),
        tools=(
            Function(
                "f",
                description=text if place == "description" else "",
                parameters=schema if place == "parameters" else "",
            ),
        ),
        template_variables=f'{{"x": "{text}"}}' if place == "variables" else "",
        schema=JsonSchema(schema, strict=False, field="f") if place == "schema" else None,
    )


PLACES = ["text", "arguments", "reasoning", "name", "description", "parameters", "variables", "schema"]


class CountingTokenizer(FastTokenizer):
    """A tokenizer in which every byte is a token, and which counts the characters that it encodes."""

    def __init__(self) -> None:
        alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
        backend = tokenizers.Tokenizer(tokenizers.models.BPE({each: n for n, each in enumerate(alphabet)}, []))
        backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = tokenizers.decoders.ByteLevel()
        self.num_characters = 0
        super().__init__(backend.to_str())

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        self.num_characters += len(text)
        return super().encode(text, add_special_tokens=add_special_tokens)


@pytest.mark.parametrize("place", PLACES)
async def test_long_string_anywhere_is_rejected_before_it_is_tokenized(place: str) -> None:
    """Every string of a conversation counts, not only the text of messages."""
    tokenizer = CountingTokenizer()
    template = StuckTemplate(threading.Event())
    preparation = preparation_of(template, tokenizer, max_model_len=64)
    tokenizer.num_characters = 0
    request = AnswerRequest("tiny", (conversation_with(place, "a" * 10_000),), "messages")
    with pytest.raises(PromptTooLong, match="at least") as caught:
        await preparation.prepare(request, "r")
    assert caught.value.field == "messages"
    assert tokenizer.num_characters == 0
    preparation.close()


@pytest.mark.parametrize("place", PLACES)
async def test_conversation_above_the_character_limit_is_rejected(place: str) -> None:
    """Counting tokens rejects a conversation whose strings have more characters than a raw prompt may have."""
    preparation = preparation_of(StuckTemplate(threading.Event()))
    with pytest.raises(InvalidRequest, match=r"has \d+ characters in all.*; the limit is 4194304") as caught:
        await preparation.tokens(conversation_with(place, "a" * 4_194_304))
    assert caught.value.field == "messages"
    preparation.close()


@pytest.mark.parametrize("place", PLACES)
async def test_long_conversations_are_rendered_one_at_a_time(place: str) -> None:
    """Long conversations are rendered one at a time, wherever their long strings are, and short ones meanwhile."""
    release = threading.Event()
    template = StuckTemplate(release)
    preparation = preparation_of(template, limits=WorkerLimits(num_threads=2))
    long = conversation_with(place, "a" * 150_000)
    stuck = Conversation((*long.messages, user("stuck")), long.tools, template_variables=long.template_variables,
                         schema=long.schema)  # fmt: skip
    first = asyncio.create_task(preparation.tokens(stuck))
    await asyncio.to_thread(template.entered.wait)
    template.entered.clear()
    second = asyncio.create_task(preparation.tokens(stuck))
    assert await preparation.tokens(Conversation((user("fine"),)))
    assert not template.entered.is_set()
    release.set()
    assert await first == await second
    preparation.close()

"""The limits of a request's preparation, and their effect on other requests."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import DeadlineExceeded, EngineOverloaded, InvalidRequest, TemplateRejected
from service.generation.prompts.conversation import RawText
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


async def test_endless_template_ends_its_request_only() -> None:
    """An endless template keeps its thread; the event loop and other requests continue."""
    release = threading.Event()
    preparation = preparation_of(StuckTemplate(release), limits=WorkerLimits(max_work_s=0.2))
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
    stuck = asyncio.create_task(preparation.prepare(chat(user("stuck")), "r"))
    await asyncio.to_thread(template.entered.wait)
    with pytest.raises(EngineOverloaded, match="busy") as caught:
        await preparation.prepare(chat(user("fine")), "r")
    assert caught.value.retry_after_s == 1
    with pytest.raises(TemplateRejected):
        await stuck
    release.set()
    preparation.close()


async def test_request_with_a_late_thread_is_prepared() -> None:
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
    preparation = preparation_of(None, StuckTokenizer(release), limits=WorkerLimits(max_work_s=0.1))
    with pytest.raises(InvalidRequest, match=r"longer than 0\.1 s") as caught:
        await preparation.prepare(raw("stuck"), "r")
    assert caught.value.field == "prompts"
    release.set()
    preparation.close()


@pytest.mark.parametrize("asked", [chat(), raw("hello")], ids=["chat", "raw"])
async def test_deadline_ends_the_preparation(preparation: Preparation, asked: AnswerRequest) -> None:
    """A request whose deadline has passed isn't prepared."""
    with pytest.raises(DeadlineExceeded):
        await preparation.prepare(asked, "r", -1.0)


async def test_loop_runs_while_a_template_does() -> None:
    """The preparation's work doesn't block the event loop."""
    release = threading.Event()
    preparation = preparation_of(StuckTemplate(release))
    preparing = asyncio.create_task(preparation.prepare(chat(user("stuck")), "r"))
    await asyncio.sleep(0.01)
    assert not preparing.done()
    release.set()
    await preparing
    preparation.close()

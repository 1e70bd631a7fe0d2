"""Conversations that are longer than their model's context."""

from __future__ import annotations

import pytest

from service.generation.errors import PromptTooLong
from service.generation.prompts.conversation import Conversation, Role
from service.generation.requests.parameters import StopParams
from service.prompting.preparation import Preparation
from tests.service.preparation.fakes import chat, preparation_of, prompt_of, request_of
from tests.service.prompts.fakes import message, user


async def test_chat_that_truncates_is_served() -> None:
    """The prompt has the system message and the newest messages; `max_tokens` are left for the answer."""
    preparation = preparation_of(max_model_len=300)
    earlier = [each for _ in range(20) for each in (user("so long ago"), message(Role.ASSISTANT, "yes"))]
    messages = [message(Role.SYSTEM, "Be kind."), *earlier, user("and now?")]
    stopping = StopParams(max_tokens=100)
    with pytest.raises(PromptTooLong):
        await preparation.prepare(chat(*messages, stopping=stopping), "r")
    prepared = await preparation.prepare(chat(*messages, stopping=stopping, truncates=True), "r")
    prompt = prompt_of(prepared)
    assert prompt.startswith("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nso long ago")
    assert prompt.endswith("and now?<|im_end|>\n<|im_start|>assistant\n")
    assert 100 < len(request_of(prepared).prompt_token_ids) <= 200
    assert prepared.stopping.max_tokens == 100
    preparation.close()


async def test_chat_whose_last_message_is_too_long_is_rejected() -> None:
    """The last message is never dropped; the error has the length without the others."""
    preparation = preparation_of(max_model_len=100)
    with pytest.raises(PromptTooLong) as caught:
        await preparation.prepare(chat(user("a"), user("0123456789" * 20), truncates=True), "r")
    assert caught.value.field == "messages"
    preparation.close()


@pytest.mark.parametrize("text", ["0123456789" * 100, "\U0001f600" * 300, "<|im_end|>" * 60])
async def test_truncated_text_in_a_template_keeps_its_end(text: str) -> None:
    """With `cuts_text` the last message keeps its end in whole characters, and the prompt fits."""
    preparation = preparation_of(max_model_len=300)
    asked = chat(user(text), stopping=StopParams(max_tokens=50), truncates=True, cuts_text=True)
    prepared = await preparation.prepare(asked, "r")
    head, _, tail = prompt_of(prepared).partition("user\n")
    assert head == "<|im_start|>"
    left = tail.removesuffix("<|im_end|>\n<|im_start|>assistant\n")
    assert text.endswith(left)
    assert 200 < len(request_of(prepared).prompt_token_ids) <= 250
    preparation.close()


async def test_token_count_equals_the_prompts_length(preparation: Preparation) -> None:
    """The count is that of the prompt for a generation, even if it is too long."""
    prepared = await preparation.prepare(chat(), "r")
    assert await preparation.tokens(Conversation((user("hello"),))) == request_of(prepared).prompt_token_ids
    assert len(await preparation.tokens(Conversation((user("0123456789" * 1000),)))) > 10_000

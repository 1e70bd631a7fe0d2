"""The parts of over-long prompts that are dropped and kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import PromptTooLong
from service.generation.prompts.conversation import FunctionCall, Message, Role
from service.prompts.tokens.truncation import PromptBudget, fit_messages, fit_text, fit_token_ids
from tests.engine.constraints.fakes import ADDED, token_id, tokenizer_of
from tests.service.prompts.fakes import message, user

TOKENIZER = tokenizer_of(*ADDED)
AROUND = {name: (token, token_id(TOKENIZER, token)) for name, token in (("<a>", "<think>"), ("<b>", "</think>"))}


@dataclass
class Prompt:
    """A prompt of one token per character."""

    messages: Sequence[Message]
    token_ids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.token_ids = [0 for message in self.messages for _ in message.text]


def call_of(call_id: str, text: str = "") -> Message:
    return message(Role.ASSISTANT, text, tool_calls=(FunctionCall(call_id, "f", "{}"),))


def result_of(call_id: str, text: str) -> Message:
    return message(Role.TOOL, text, tool_call_id=call_id)


@pytest.mark.parametrize(("max_tokens", "target"), [(None, 99), (1, 99), (30, 70), (50, 50), (51, 50), (1000, 50)])
def test_tokens_are_kept_for_the_answer_up_to_half_the_context(max_tokens: int | None, target: int) -> None:
    """An over-long prompt leaves max_tokens but keeps half the context; without max_tokens it leaves one token."""
    assert PromptBudget(100, max_tokens, truncates=True).target == target


@pytest.mark.parametrize(("num_tokens", "num_left"), [(1, 1), (99, 99), (100, 70), (500, 70)])
def test_truncated_token_ids_lose_their_beginning(num_tokens: int, num_left: int) -> None:
    """A prompt that leaves a token for the answer is kept; a longer one loses its beginning, or is rejected."""
    token_ids = list(range(num_tokens))
    assert fit_token_ids(token_ids, PromptBudget(100, 30, truncates=True), "p") == token_ids[num_tokens - num_left :]
    if num_tokens > 99:
        with pytest.raises(PromptTooLong) as caught:
            fit_token_ids(token_ids, PromptBudget(100, 30, truncates=False), "p")
        assert (caught.value.field, caught.value.num_prompt_tokens) == ("p", num_tokens)


@pytest.mark.parametrize("template", ["<a> $A", "$A <b>", "<a> <a> $A <b>", "$A"])
def test_truncated_text_keeps_the_tokenizers_first_and_last_tokens(template: str) -> None:
    """The text is cut between the tokens that begin and end every text of the model."""
    before, after = ([AROUND[word][1] for word in part.split()] for part in template.split("$A"))
    tokenizer = wrapping(template)
    text = "0123456789" * 20
    token_ids = fit_text(tokenizer, text, PromptBudget(100, 30, truncates=True), "p")
    assert token_ids == [*before, *tokenizer.encode(text)[len(before) + len(after) - 70 :], *after]
    short = fit_text(tokenizer, "0123", PromptBudget(100, 30, truncates=True), "p")
    assert short == [*before, *tokenizer.encode("0123"), *after]
    with pytest.raises(PromptTooLong):
        fit_text(tokenizer, text, PromptBudget(100, 30, truncates=False), "p")


def wrapping(template: str) -> FastTokenizer:
    """Return a tokenizer that puts control tokens around each text."""
    single = [
        {"Sequence": {"id": "A", "type_id": 0}}
        if word == "$A"
        else {"SpecialToken": {"id": AROUND[word][0], "type_id": 0}}
        for word in template.split()
    ]
    tokens = {token: {"id": token, "ids": [number], "tokens": [token]} for token, number in AROUND.values()}
    processor = {"type": "TemplateProcessing", "single": single, "pair": single * 2, "special_tokens": tokens}
    return FastTokenizer(json.dumps(json.loads(TOKENIZER.json) | {"post_processor": processor}))


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Draw messages in any order in which each tool message answers an earlier call."""
    messages = [message(Role.SYSTEM, "s" * draw(st.integers(0, 9)))] if draw(st.booleans()) else []
    calls: list[str] = []
    for index in range(draw(st.integers(1, 12))):
        kinds = ["user", "assistant", "call", *(["result"] * 2 if calls else [])]
        text = "x" * draw(st.integers(0, 9))
        match draw(st.sampled_from(kinds)):
            case "user":
                messages.append(user(text))
            case "assistant":
                messages.append(message(Role.ASSISTANT, text))
            case "call":
                calls.append(f"c{index}")
                messages.append(call_of(calls[-1], text))
            case _:
                messages.append(result_of(draw(st.sampled_from(calls)), text))
    return messages


@given(conversations(), st.integers(2, 60), st.one_of(st.none(), st.integers(1, 60)))
def test_conversation_loses_its_oldest_messages(
    messages: list[Message], max_model_len: int, max_tokens: int | None
) -> None:
    """The rest has the system message, an end of the conversation, and all calls of its results.

    It is the longest such rest that begins with a user message or, if none of these fits, the longest of all.
    """
    budget = PromptBudget(max_model_len, max_tokens, truncates=True)
    whole = Prompt(messages)
    prompt = fit_messages(messages, Prompt, budget)
    if len(whole.token_ids) <= budget.limit:
        assert prompt.messages == messages
        return
    num_system = int(messages[0].role is Role.SYSTEM)
    left = list(prompt.messages)
    assert left == messages[:num_system] + messages[len(messages) - len(left) + num_system :]
    assert len(left) > num_system or len(messages) == num_system
    assert not orphans(left)
    ends = [messages[:num_system] + messages[start:] for start in range(num_system + 1, len(messages))]
    ends = [end for end in ends if not orphans(end)]
    by_user = [end for end in ends if end[num_system].role is Role.USER]
    for candidates in (by_user, ends):
        for limit in (budget.target, budget.limit):
            if fitting := [end for end in candidates if len(Prompt(end).token_ids) <= limit]:
                assert left == fitting[0]
                return
    assert left == (ends[-1] if ends else messages)


def orphans(messages: Sequence[Message]) -> set[str]:
    """Return the calls that have a result but are missing."""
    answered = {message.tool_call_id for message in messages if message.role is Role.TOOL}
    return answered - {call.id for message in messages for call in message.tool_calls}


def test_long_conversation_is_rendered_few_times() -> None:
    """The index of the cut is found by binary search."""
    num_renderings = 0

    def render(messages: Sequence[Message]) -> Prompt:
        nonlocal num_renderings
        num_renderings += 1
        return Prompt(messages)

    messages = [user("x" * 10)] * 4096
    prompt = fit_messages(messages, render, PromptBudget(1001, None, truncates=True))
    assert len(prompt.messages) == 100
    assert num_renderings <= 14

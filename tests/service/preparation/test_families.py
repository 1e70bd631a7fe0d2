"""Whole chats of families whose reasoning and answers have their own markers."""

from __future__ import annotations

from typing import Any

import pytest

from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ConstraintFailed
from service.generation.formats.output_format import Regex
from service.generation.prompts.conversation import ReasoningEffort
from service.generation.requests.request import GenerationRequest
from service.output.families.named_calls import HARMONY
from service.output.families.object_calls import COMMAND
from service.output.families.reasoning_families import REASONING_FAMILIES, ReasoningFamily
from service.output.families.tool_syntax import CHANNEL_MARKERS
from service.prompts.chats.reasoning_effort import ReasoningBudgets
from tests.engine.constraints.fakes import END, SPECIAL, control_ids_of, token_id, tokenizer_of
from tests.service.output.fakes import outputs_of, results_by_choice
from tests.service.output.families.families import FAMILIES
from tests.service.preparation.fakes import (
    answer_to,
    chat,
    chat_model_of,
    preparation_of,
    prompt_of,
    reader_of,
    request_of,
)
from tests.service.preparation.tools import REQUIRED, WEATHER

TEMPLATES = {family.syntax.name: family.template for family in FAMILIES}
COMMAND_TOKENS = ("<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>")
BUDGETS = ReasoningBudgets(low=4, medium=40, high=None)
HARMONY_TOKENIZER = tokenizer_of(special=(*SPECIAL, *CHANNEL_MARKERS))
CALL = '{"city": "Oslo", "days": 3}'


def may_say(request: GenerationRequest, tokenizer: FastTokenizer, text: str) -> bool:
    """Return True if the request's constraint allows this text."""
    assert request.constraint is not None
    compiler = ConstraintCompiler(tokenizer, control_ids_of(tokenizer), [token_id(tokenizer, END)])
    state = compiler(request.constraint)
    try:
        for token in tokenizer.encode(text + END):
            state.accept(token)
    except ConstraintFailed:
        return False
    return True


@pytest.mark.parametrize(
    "family", [family for family in REASONING_FAMILIES if family.families != "gpt-oss"], ids=lambda f: str(f.families)
)
async def test_reasoning_of_each_family_is_separated(family: ReasoningFamily) -> None:
    """The markers of reasoning and answer belong to neither."""
    markers = family.markers
    preparation = preparation_of("{# " + " ".join(family.marks) + " #}{{ messages[0].content }}")
    text = f"{markers.open}\nhm {markers.close}\n{markers.answer_open}It is.{markers.answer_close}"
    answer = answer_to(await preparation.prepare(chat(), "r"), text)
    assert (answer.reasoning, answer.text) == ("hm", "It is.")
    preparation.close()


async def test_answer_markers_that_are_special_tokens_are_removed() -> None:
    """Command A's markers are special tokens: the engine shows them, and the client doesn't get them."""
    tokenizer = tokenizer_of(special=(*SPECIAL, *COMMAND_TOKENS, COMMAND.begin, COMMAND.end))
    source = TEMPLATES["command-a"] + "{# " + " ".join(COMMAND_TOKENS) + " #}"
    preparation = preparation_of(source, tokenizer)
    prepared = await preparation.prepare(chat(), "r")
    reader = reader_of(prepared, tokenizer)
    text = "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Hi there.<|END_RESPONSE|>"
    outputs = outputs_of(tokenizer, [*tokenizer.encode(text), token_id(tokenizer, END)], hides_special=False)
    answer = results_by_choice(event for output in outputs for event in reader.read(output))[0]
    assert (answer.reasoning, answer.text) == ("hm", "Hi there.")
    preparation.close()


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"output_format": Regex("[0-9]+", "f")}, "<|channel|>final<|message|>42"),
        (
            {"tools": [WEATHER], "tool_choice": REQUIRED},
            f"<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{CALL}",
        ),
    ],
    ids=["format", "tool"],
)
async def test_constraint_applies_to_the_answer_channel_only(given: dict[str, Any], answer: str) -> None:
    """The analysis is free, and the answer is in the channel that its constraint applies to."""
    preparation = preparation_of(TEMPLATES["harmony"], HARMONY_TOKENIZER)
    request = request_of(await preparation.prepare(chat(**given), "r"))
    analysis = "<|channel|>analysis<|message|>so then<|end|><|start|>assistant"
    assert may_say(request, HARMONY_TOKENIZER, analysis + answer)
    assert not may_say(request, HARMONY_TOKENIZER, analysis + "<|channel|>final<|message|>no")
    assert not may_say(request, HARMONY_TOKENIZER, answer)
    preparation.close()


async def test_message_to_a_function_matches_its_schema() -> None:
    """A message to a function is held to its schema; any other is free."""
    preparation = preparation_of(TEMPLATES["harmony"], HARMONY_TOKENIZER)
    request = request_of(await preparation.prepare(chat(tools=[WEATHER]), "r"))
    head = (
        f"<|channel|>analysis<|message|>so<|end|><|start|>assistant{HARMONY.begin}weather <|constrain|>json<|message|>"
    )
    assert may_say(request, HARMONY_TOKENIZER, head + CALL)
    assert not may_say(request, HARMONY_TOKENIZER, head + '{"city": 5}')
    preparation.close()


@pytest.mark.parametrize(
    ("effort", "level"),
    [
        (ReasoningEffort.NONE, "low"),
        (ReasoningEffort.LOW, "low"),
        (ReasoningEffort.HIGH, "high"),
    ],
)
async def test_effort_none_is_the_lowest_level_of_an_always_reasoning_model(
    effort: ReasoningEffort, level: str
) -> None:
    """The template gets a level that it supports."""
    preparation = preparation_of(TEMPLATES["harmony"])
    assert chat_model_of(preparation).supports_reasoning
    prepared = await preparation.prepare(chat(reasoning_effort=effort), "r")
    assert f"Reasoning: {level}" in prompt_of(prepared)
    preparation.close()


@pytest.mark.parametrize(
    ("effort", "budget"),
    [(ReasoningEffort.NONE, 0), (ReasoningEffort.LOW, 4), (ReasoningEffort.MEDIUM, 40), (ReasoningEffort.HIGH, -1)],
)
async def test_template_receives_the_token_budget(effort: ReasoningEffort, budget: int) -> None:
    """Seed-OSS's template takes tokens, not levels."""
    source = "{{ messages[0].content }}{{ thinking_budget }}{# <seed:think></seed:think> #}"
    preparation = preparation_of(source, budgets=BUDGETS)
    prepared = await preparation.prepare(chat(reasoning_effort=effort), "r")
    assert prompt_of(prepared) == f"hello{budget}"
    preparation.close()

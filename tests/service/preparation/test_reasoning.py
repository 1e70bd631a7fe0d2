"""The reasoning that whole chats allow a model."""

from __future__ import annotations

import pytest

from service.generation.formats.constraint import Constraint, ReasoningLimit, ReasoningMarkers, ReasoningStart
from service.generation.formats.output_format import Regex
from service.generation.prompts.conversation import ReasoningEffort
from service.prompting.preparation import Preparation
from service.prompts.chats.reasoning_effort import DefaultEffort
from tests.service.preparation.fakes import answer_to, chat, chat_model_of, preparation_of, prompt_of, request_of
from tests.service.prompts.fakes import CHATML

MARKERS = ReasoningMarkers("<think>", "</think>")
UNSWITCHED = CHATML.split("{%- if enable_thinking")[0]  # shows earlier reasoning, and has no switch


@pytest.mark.parametrize(
    ("effort", "ends_with", "limit"),
    [
        (None, "assistant\n", None),
        (ReasoningEffort.NONE, "<think>\n\n</think>\n\n", None),
        (ReasoningEffort.LOW, "assistant\n", 4),
        (ReasoningEffort.MEDIUM, "assistant\n", 40),
        (ReasoningEffort.HIGH, "assistant\n", "none"),
    ],
)
async def test_effort_sets_template_switch_and_token_budget(
    preparation: Preparation, effort: ReasoningEffort | None, ends_with: str, limit: int | str | None
) -> None:
    """The effort sets the template's switch, opens the reasoning and bounds its tokens."""
    prepared = await preparation.prepare(chat(reasoning_effort=effort), "r")
    assert prompt_of(prepared).endswith(ends_with)
    expected = None
    if limit is not None:
        budget = limit if isinstance(limit, int) else None
        expected = Constraint(reasoning=ReasoningLimit(MARKERS, ReasoningStart.MAY_OPEN, budget, must_open=True))
    assert request_of(prepared).constraint == expected


@pytest.mark.parametrize("effort", [None, ReasoningEffort.LOW, ReasoningEffort.HIGH])
async def test_token_budget_of_the_request_overrides_the_efforts(
    preparation: Preparation, effort: ReasoningEffort | None
) -> None:
    """The request's number of tokens replaces the effort's; the effort NONE still allows no reasoning."""
    prepared = await preparation.prepare(chat(reasoning_effort=effort, reasoning_budget=9), "r")
    limit = ReasoningLimit(MARKERS, ReasoningStart.MAY_OPEN, 9, must_open=effort is not None)
    assert request_of(prepared).constraint == Constraint(reasoning=limit)
    closed = await preparation.prepare(chat(reasoning_effort=ReasoningEffort.NONE, reasoning_budget=9), "r")
    assert request_of(closed).constraint is None


async def test_prompt_that_opens_the_reasoning_starts_inside_it() -> None:
    """If the prompt ends with the opening marker, the answer begins inside the reasoning; NONE closes it at once."""
    preparation = preparation_of(UNSWITCHED + "{{ '<think>\n' }}")
    assert not chat_model_of(preparation).supports_reasoning
    answer = answer_to(await preparation.prepare(chat(), "r"), "so\n</think>\n\nHi")
    assert (answer.reasoning, answer.text) == ("so", "Hi")
    prepared = await preparation.prepare(chat(reasoning_effort=ReasoningEffort.NONE), "r")
    assert request_of(prepared).constraint == Constraint(reasoning=ReasoningLimit(MARKERS, ReasoningStart.OPEN, 0))
    preparation.close()


async def test_reasoning_is_not_forced_on_a_model_without_a_switch() -> None:
    """A template that only shows earlier reasoning doesn't show that the model reasons: it may, but doesn't have to."""
    preparation = preparation_of(UNSWITCHED)
    prepared = await preparation.prepare(chat(reasoning_effort=ReasoningEffort.LOW), "r")
    limit = ReasoningLimit(MARKERS, ReasoningStart.MAY_OPEN, budget=512, must_open=False)
    assert request_of(prepared).constraint == Constraint(reasoning=limit)
    preparation.close()


async def test_effort_is_ignored_by_a_model_that_does_not_reason() -> None:
    """A template without reasoning accepts any effort, and the answer is unchanged."""
    preparation = preparation_of("{{ messages[0].content }}")
    prepared = await preparation.prepare(chat(reasoning_effort=ReasoningEffort.HIGH), "r")
    assert request_of(prepared).constraint is None
    assert answer_to(prepared, "<think>a</think>b").text == "<think>a</think>b"
    preparation.close()


async def test_grammar_applies_after_the_reasoning(preparation: Preparation) -> None:
    """If the model may reason first, the grammar applies after the reasoning; otherwise from the start."""
    expected = Regex("yes", "output_constraint.regex")
    free = request_of(await preparation.prepare(chat(output_format=expected), "r")).constraint
    closed = chat(output_format=expected, reasoning_effort=ReasoningEffort.NONE)
    at_once = request_of(await preparation.prepare(closed, "r")).constraint
    assert free is not None
    assert at_once is not None
    assert free.grammar == at_once.grammar
    assert free.grammar is not None
    assert free.grammar.field == "output_constraint.regex"
    assert free.reasoning == ReasoningLimit(MARKERS, ReasoningStart.MAY_OPEN)
    assert at_once.reasoning is None


@pytest.mark.parametrize(
    ("default", "given", "promised", "expected"),
    [
        (None, None, None, None),
        (None, None, ReasoningEffort.MEDIUM, ReasoningEffort.MEDIUM),
        (None, ReasoningEffort.LOW, ReasoningEffort.MEDIUM, ReasoningEffort.LOW),
        (ReasoningEffort.HIGH, None, ReasoningEffort.MEDIUM, ReasoningEffort.HIGH),
        (ReasoningEffort.HIGH, ReasoningEffort.NONE, ReasoningEffort.MEDIUM, ReasoningEffort.NONE),
        ("template", None, ReasoningEffort.MEDIUM, None),
        ("template", ReasoningEffort.LOW, ReasoningEffort.MEDIUM, ReasoningEffort.LOW),
    ],
)
async def test_effort_precedence_is_request_model_platform(
    default: DefaultEffort,
    given: ReasoningEffort | None,
    promised: ReasoningEffort | None,
    expected: ReasoningEffort | None,
) -> None:
    """The first of these efforts applies; the answer returns it, and is the same as if the request named it."""
    preparation = preparation_of(default_effort=default)
    prepared = await preparation.prepare(chat(reasoning_effort=given, default_effort=promised), "r")
    assert prepared.reasoning_effort is expected
    named = await preparation_of().prepare(chat(reasoning_effort=expected), "r")
    assert request_of(prepared).constraint == request_of(named).constraint
    assert prompt_of(prepared) == prompt_of(named)
    preparation.close()


async def test_default_effort_is_ignored_by_a_model_that_does_not_reason() -> None:
    """The default effort is neither in force nor returned."""
    preparation = preparation_of("{{ messages[0].content }}", default_effort=ReasoningEffort.HIGH)
    prepared = await preparation.prepare(chat(default_effort=ReasoningEffort.MEDIUM), "r")
    assert (prepared.reasoning_effort, request_of(prepared).constraint) == (None, None)
    preparation.close()

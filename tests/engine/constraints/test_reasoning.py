"""Reasoning budgets, and constraints that begin after the reasoning."""

from __future__ import annotations

import random

import numpy as np
import pytest

from service.engine.constraints.grammar import GrammarCompiler
from service.engine.constraints.reasoning import ReasoningConstraint, ReasoningTokens
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ConstraintFailed
from service.generation.formats.constraint import ReasoningMarkers, ReasoningStart
from tests.engine.constraints.fakes import (
    ADDED,
    END,
    allowed_ids,
    babble,
    control_ids_of,
    regex_grammar,
    token_id,
    tokenizer_of,
)

MARKERS = ReasoningMarkers("<think>", "</think>")
TOKENIZER = tokenizer_of(*ADDED)
SPELLING = tokenizer_of()  # without tokens for the markers: they are spelled
END_ID = token_id(TOKENIZER, END)
TOKENS = ReasoningTokens(TOKENIZER, MARKERS, [END_ID])


def answer(tokenizer: FastTokenizer = TOKENIZER) -> ConstraintState:
    compiler = GrammarCompiler(tokenizer, control_ids_of(tokenizer), [token_id(tokenizer, END)])
    return compiler.compile(regex_grammar("yes|no"))


def text_of(token_ids: list[int], tokenizer: FastTokenizer = TOKENIZER) -> str:
    return b"".join(tokenizer.token_bytes(token) for token in token_ids).decode(errors="replace")


def force(constraint: ConstraintState, text: str) -> None:
    """Check that exactly this text must come, and take it."""
    for token in TOKENIZER.encode(text):
        assert allowed_ids(constraint, TOKENIZER) == [token]
        constraint.accept(token)


def reason(constraint: ConstraintState, num_tokens: int) -> None:
    (letter,) = TOKENIZER.encode("x")
    for _ in range(num_tokens):
        assert len(allowed_ids(constraint, TOKENIZER)) > 100
        constraint.accept(letter)


def test_budget_closes_the_reasoning() -> None:
    """After the budget's last token the closing marker and the template's white space are forced, then all is free."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.OPEN, budget=5, answer=None)
    reason(constraint, 5)
    force(constraint, "</think>\n\n")
    reason(constraint, 3)
    assert not constraint.is_finished()


def test_budget_leaves_shorter_reasoning_alone() -> None:
    """A model that closes its reasoning in time is never forced."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.OPEN, budget=5, answer=None)
    reason(constraint, 4)
    constraint.accept(token_id(TOKENIZER, "</think>"))
    reason(constraint, 10)


def test_budget_of_nothing_closes_at_once() -> None:
    """No reasoning where the template can't switch it off: the marker that the prompt opened is closed."""
    force(ReasoningConstraint(TOKENS, ReasoningStart.OPEN, budget=0, answer=None), "</think>\n\n")
    opened = ReasoningConstraint(TOKENS, ReasoningStart.MAY_OPEN, budget=0, answer=None)
    opened.accept(token_id(TOKENIZER, "<think>"))
    force(opened, "</think>\n\n")


def test_reasoning_is_opened_where_it_must_be() -> None:
    """An effort that asks for reasoning makes the model begin with it; the opening doesn't count."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.MAY_OPEN, budget=2, answer=None, must_open=True)
    force(constraint, "<think>\n")
    reason(constraint, 2)
    force(constraint, "</think>\n\n")


def test_answer_is_held_to_its_constraint_after_free_reasoning() -> None:
    """While it reasons, anything goes but the end of the text; then the constraint holds from the first token on."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.OPEN, budget=None, answer=answer())
    reason(constraint, 30)
    assert END_ID not in allowed_ids(constraint, TOKENIZER)
    constraint.accept(token_id(TOKENIZER, "</think>"))
    force(constraint, "\n\n")
    assert {TOKENIZER.token_bytes(token)[:1] for token in allowed_ids(constraint, TOKENIZER)} == {b"y", b"n"}
    for token in TOKENIZER.encode("yes"):
        assert not constraint.is_finished()
        constraint.accept(token)
    assert constraint.is_finished()


def test_model_may_reason_first_or_answer_at_once() -> None:
    """Where the template leaves it open, the first token decides."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.MAY_OPEN, budget=None, answer=answer())
    first = {TOKENIZER.token_bytes(token)[:1] for token in allowed_ids(constraint, TOKENIZER)}
    assert first == {b"y", b"n", b"<"}
    constraint.fork().accept(token_id(TOKENIZER, "<think>"))
    for token in TOKENIZER.encode("no"):
        constraint.accept(token)
    assert constraint.is_finished()


def test_end_of_text_is_free_while_reasoning_without_an_answer_to_hold() -> None:
    """A budget alone doesn't keep the model from ending."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.OPEN, budget=9, answer=None)
    assert END_ID in allowed_ids(constraint, TOKENIZER)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("tokenizer", [TOKENIZER, SPELLING], ids=["tokens", "spelled"])
def test_senseless_model_still_gives_reasoning_and_a_valid_answer(seed: int, tokenizer: FastTokenizer) -> None:
    """Whatever is drawn, the text is reasoning within its budget, the marker, and an answer that matches."""
    tokens = ReasoningTokens(tokenizer, MARKERS, [token_id(tokenizer, END)])
    constraint = ReasoningConstraint(tokens, ReasoningStart.OPEN, budget=12, answer=answer(tokenizer))
    said = babble(constraint, tokenizer, token_id(tokenizer, END), random.Random(seed))
    _, marker, rest = text_of(said[:-1], tokenizer).partition("</think>\n\n")
    assert marker
    assert rest in ("yes", "no")


def test_token_that_crosses_the_marker_is_forbidden_only_where_it_would() -> None:
    """A token that ends a spelled marker and goes on can't carry text past the constraint's beginning."""
    tokenizer = tokenizer_of(">yes", "</think>yes")
    tokens = ReasoningTokens(tokenizer, MARKERS, [token_id(tokenizer, END)])
    constraint = ReasoningConstraint(tokens, ReasoningStart.OPEN, budget=None, answer=answer(tokenizer))
    crossing, whole = token_id(tokenizer, ">yes"), token_id(tokenizer, "</think>yes")
    assert crossing in allowed_ids(constraint, tokenizer)
    assert whole not in allowed_ids(constraint, tokenizer)
    for token in tokenizer.encode("so </think"):
        constraint.accept(token)
    assert crossing not in allowed_ids(constraint, tokenizer)


def test_fork_keeps_what_was_reasoned() -> None:
    """A copy in the middle of reasoning has the same rest of the budget, and its own from there."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.OPEN, budget=5, answer=None)
    reason(constraint, 3)
    copy = constraint.fork()
    reason(constraint, 2)
    force(constraint, "</think>\n\n")
    reason(copy, 2)
    force(copy, "</think>\n\n")


def test_forced_token_must_be_taken() -> None:
    """Another token than the forced one is an error."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.OPEN, budget=0, answer=None)
    with pytest.raises(ConstraintFailed):
        constraint.accept(TOKENIZER.encode("x")[0])


def test_mask_sets_and_clears_any_bit() -> None:
    """Every place of a word works, its sign bit too."""
    for opened in range(TOKENIZER.vocab_size):
        tokens = ReasoningTokens(TOKENIZER, MARKERS, [opened])
        words = np.zeros((TOKENIZER.vocab_size + 31) // 32, dtype=np.int32)
        ReasoningConstraint(tokens, ReasoningStart.OPEN, budget=None, answer=answer_that_is_never_asked()).fill_mask(
            words
        )
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")[: TOKENIZER.vocab_size]
        assert np.nonzero(bits == 0)[0].tolist() == [opened]
        if opened > 40:
            break


def answer_that_is_never_asked() -> ConstraintState:
    return ReasoningConstraint(TOKENS, ReasoningStart.NONE, budget=None, answer=None)

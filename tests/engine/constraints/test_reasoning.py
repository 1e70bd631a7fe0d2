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
SPELLING = tokenizer_of()  # has no tokens for the markers, so they are spelled
END_ID = token_id(TOKENIZER, END)
TOKENS = ReasoningTokens(TOKENIZER.table, MARKERS, [END_ID])


def answer(tokenizer: FastTokenizer = TOKENIZER) -> ConstraintState:
    compiler = GrammarCompiler(tokenizer, control_ids_of(tokenizer), [token_id(tokenizer, END)])
    return compiler.compile(regex_grammar("yes|no"))


def text_of(token_ids: list[int], tokenizer: FastTokenizer = TOKENIZER) -> str:
    return b"".join(tokenizer.token_bytes(token) for token in token_ids).decode(errors="replace")


def force(constraint: ConstraintState, text: str) -> None:
    """Check that exactly this text is forced, and accept it."""
    for token in TOKENIZER.encode(text):
        assert allowed_ids(constraint, TOKENIZER) == [token]
        constraint.accept(token)


def reason(constraint: ConstraintState, num_tokens: int) -> None:
    (letter,) = TOKENIZER.encode("x")
    for _ in range(num_tokens):
        assert len(allowed_ids(constraint, TOKENIZER)) > 100
        constraint.accept(letter)


def test_budget_closes_the_reasoning() -> None:
    """After the budget's last token, the closing marker and white space are forced; then all tokens are allowed."""
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
    """With a budget of 0 the marker that the prompt opened is closed at once."""
    force(ReasoningConstraint(TOKENS, ReasoningStart.OPEN, budget=0, answer=None), "</think>\n\n")
    opened = ReasoningConstraint(TOKENS, ReasoningStart.MAY_OPEN, budget=0, answer=None)
    opened.accept(token_id(TOKENIZER, "<think>"))
    force(opened, "</think>\n\n")


def test_reasoning_is_opened_where_it_must_be() -> None:
    """An effort that requires reasoning forces its opening, which doesn't count towards the budget."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.MAY_OPEN, budget=2, answer=None, must_open=True)
    force(constraint, "<think>\n")
    reason(constraint, 2)
    force(constraint, "</think>\n\n")


def test_answer_is_held_to_its_constraint_after_free_reasoning() -> None:
    """During reasoning all tokens but the end of the text are allowed; then the constraint holds for every token."""
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
    """If the template doesn't decide, the first token does."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.MAY_OPEN, budget=None, answer=answer())
    first = {TOKENIZER.token_bytes(token)[:1] for token in allowed_ids(constraint, TOKENIZER)}
    assert first == {b"y", b"n", b"<"}
    constraint.fork().accept(token_id(TOKENIZER, "<think>"))
    for token in TOKENIZER.encode("no"):
        constraint.accept(token)
    assert constraint.is_finished()


def test_end_of_text_is_free_while_reasoning_without_an_answer_to_hold() -> None:
    """A budget without an answer's constraint doesn't prevent the end of the text."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.OPEN, budget=9, answer=None)
    assert END_ID in allowed_ids(constraint, TOKENIZER)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("tokenizer", [TOKENIZER, SPELLING], ids=["tokens", "spelled"])
def test_random_logits_still_give_reasoning_and_a_valid_answer(seed: int, tokenizer: FastTokenizer) -> None:
    """For any logits, the text is reasoning within its budget, the marker, and a matching answer."""
    tokens = ReasoningTokens(tokenizer, MARKERS, [token_id(tokenizer, END)])
    constraint = ReasoningConstraint(tokens, ReasoningStart.OPEN, budget=12, answer=answer(tokenizer))
    said = babble(constraint, tokenizer, token_id(tokenizer, END), random.Random(seed))
    _, marker, rest = text_of(said[:-1], tokenizer).partition("</think>\n\n")
    assert marker
    assert rest in ("yes", "no")


def test_token_that_crosses_the_marker_is_forbidden_only_where_it_would() -> None:
    """A token that completes a spelled marker and continues can't carry text past the constraint's beginning."""
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
    """A copy in the middle of the reasoning has the same remaining budget, and its own state afterwards."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.OPEN, budget=5, answer=None)
    reason(constraint, 3)
    copy = constraint.fork()
    reason(constraint, 2)
    force(constraint, "</think>\n\n")
    reason(copy, 2)
    force(copy, "</think>\n\n")


def test_forced_token_must_be_taken() -> None:
    """Accepting another token than the forced one is an error."""
    constraint = ReasoningConstraint(TOKENS, ReasoningStart.OPEN, budget=0, answer=None)
    with pytest.raises(ConstraintFailed):
        constraint.accept(TOKENIZER.encode("x")[0])


def test_mask_sets_and_clears_any_bit() -> None:
    """Every bit of a word works, including the sign bit."""
    for opened in range(TOKENIZER.vocab_size):
        tokens = ReasoningTokens(TOKENIZER, MARKERS, [opened])
        mask = np.zeros((TOKENIZER.vocab_size + 31) // 32, dtype=np.int32)
        ReasoningConstraint(tokens, ReasoningStart.OPEN, budget=None, answer=answer_that_is_never_asked()).fill_mask(
            mask
        )
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: TOKENIZER.vocab_size]
        assert np.nonzero(bits == 0)[0].tolist() == [opened]
        if opened > 40:
            break


def answer_that_is_never_asked() -> ConstraintState:
    return ReasoningConstraint(TOKENS, ReasoningStart.NONE, budget=None, answer=None)

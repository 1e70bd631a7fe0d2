"""Grammars as the engine enforces them, and a model of random logits."""

from __future__ import annotations

import random
from functools import cache

from service.engine.constraints.grammar import GrammarCompiler
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ConstraintFailed
from service.generation.formats.constraint import Grammar
from tests.engine.constraints.fakes import END, babble, control_ids_of, token_id


@cache
def compiler_of(tokenizer: FastTokenizer, *, ends_in_time: bool = False) -> GrammarCompiler:
    """Return the tokenizer's compiler; the search for endings, which takes most of the time, allows the same texts."""
    return GrammarCompiler(tokenizer, control_ids_of(tokenizer), [token_id(tokenizer, END)], ends_in_time=ends_in_time)


def said_under(grammar: Grammar, tokenizer: FastTokenizer, seed: int) -> str:
    """Return the text of a model that takes random allowed tokens. Raise UnsupportedConstraint."""
    constraint = compiler_of(tokenizer).compile(grammar)
    tokens = babble(constraint, tokenizer, token_id(tokenizer, END), random.Random(seed), max_tokens=12_000)
    return b"".join(tokenizer.token_bytes(token) for token in tokens[:-1]).decode(errors="replace")


def accepts(grammar: Grammar, tokenizer: FastTokenizer, text: str) -> bool:
    """Return True if the text is allowed. Raise UnsupportedConstraint."""
    constraint = compiler_of(tokenizer).compile(grammar)
    try:
        for token in tokenizer.encode(text):
            constraint.accept(token)
    except ConstraintFailed:
        return False
    return True

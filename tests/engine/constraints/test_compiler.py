"""What grammars need of a vocabulary is made once, with the first of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from service.engine.constraints import compiler
from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.constraints.grammar import GrammarCompiler
from service.generation.formats.constraint import Constraint
from tests.engine.constraints.fakes import END, control_ids_of, json_grammar, token_id, tokenizer_of


def test_vocabulary_is_prepared_once_and_only_for_those_who_constrain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large vocabulary it is 100 MB, which most servers never need; threads that come together share it."""
    made: list[GrammarCompiler] = []

    class Counted(GrammarCompiler):
        def __init__(self, *args: object, **kwargs: object) -> None:
            made.append(self)
            super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(compiler, "GrammarCompiler", Counted)
    tokenizer = tokenizer_of()
    compile_ = ConstraintCompiler(tokenizer, control_ids_of(tokenizer), [token_id(tokenizer, END)])
    assert not made
    constraints = [Constraint(json_grammar({"type": "integer", "maximum": number})) for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        states = list(threads.map(compile_, constraints))
    assert len(made) == 1
    assert not any(state.is_finished() for state in states)

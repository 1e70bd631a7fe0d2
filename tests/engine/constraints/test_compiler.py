"""The vocabulary tables for grammars are built once, with the first grammar."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from service.engine.constraints import compiler
from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.constraints.grammar import GrammarCompiler
from service.generation.formats.constraint import Constraint
from tests.engine.constraints.fakes import END, control_ids_of, json_grammar, token_id, tokenizer_of


def test_vocabulary_is_prepared_once_and_only_for_constraints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share the tables, which take 100 MB for a large vocabulary; servers without constraints build none."""
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

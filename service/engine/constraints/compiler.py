"""Compile a constraint to its initial state."""

from __future__ import annotations

import threading
from collections import abc
from functools import lru_cache, partial

from service.engine.constraints.calls import CallConstraint
from service.engine.constraints.grammar import GrammarCompiler
from service.engine.constraints.marker import Marker
from service.engine.constraints.reasoning import ReasoningConstraint, ReasoningTokens
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.tokens.tokenizer import Vocabulary
from service.generation.formats.constraint import Constraint, Grammar, ReasoningMarkers

_MAX_KEPT_MARKERS = 16  # a model has one pair; clients can't name others


class ConstraintCompiler:
    """Compiles constraints for one model. Any thread may call it; a compilation may take seconds.

    The vocabulary tables for grammars are built with the first grammar: 100 MB in 0.6 s for 150,000 tokens.
    """

    def __init__(
        self,
        tokenizer: Vocabulary,
        control_token_ids: abc.Mapping[str, int],
        eos_token_ids: abc.Collection[int],
        *,
        ends_in_time: bool = True,
    ) -> None:
        """`control_token_ids` are the ids that are not text; `eos_token_ids` must not be empty.

        With `ends_in_time` answers match their grammar within their token limit.
        """
        self._make_grammars = partial(
            GrammarCompiler, tokenizer, control_token_ids, eos_token_ids, ends_in_time=ends_in_time
        )
        self._grammar_compiler: GrammarCompiler | None = None
        self._lock = threading.Lock()

        def tokens_of(markers: ReasoningMarkers) -> ReasoningTokens:
            return ReasoningTokens(tokenizer, markers, eos_token_ids)

        def marker_of(text: str) -> Marker:
            return Marker(tokenizer, text.encode())

        self._tokenizer = tokenizer
        self._eos_token_id = min(eos_token_ids)
        self._tokens_of = lru_cache(_MAX_KEPT_MARKERS)(tokens_of)
        self._marker_of = lru_cache(_MAX_KEPT_MARKERS)(marker_of)

    def __call__(self, constraint: Constraint) -> ConstraintState:
        """Return the initial state. Raise UnsupportedConstraint with the field and the unsupported part."""
        answer = self._answer(constraint.grammar) if constraint.grammar else None
        if (limit := constraint.reasoning) is None:
            if answer is None:
                raise ValueError("the constraint constrains nothing")
            return answer
        return ReasoningConstraint(
            self._tokens_of(limit.markers),
            limit.start,
            budget=limit.budget,
            answer=answer,
            must_open=limit.must_open,
        )

    @property
    def _grammars(self) -> GrammarCompiler:
        with self._lock:
            if self._grammar_compiler is None:
                self._grammar_compiler = self._make_grammars()
            return self._grammar_compiler

    def _answer(self, grammar: Grammar) -> ConstraintState:
        """Compile the grammar of an answer, with its opening marker and lead if it has them."""
        compiled = self._grammars.compile(grammar)
        if (opening := grammar.opening) is None:
            return compiled
        return CallConstraint(
            self._tokenizer,
            compiled,
            markers=tuple(map(self._marker_of, opening.markers)),
            lead=self._grammars.compile(Grammar(opening.lead, grammar.field)) if opening.lead else None,
            once=opening.once,
            eos_token_id=self._eos_token_id,
        )

"""Grammars that are compiled for a tokenizer."""

from __future__ import annotations

import threading
from collections import OrderedDict, abc
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeAlias

import llguidance
import numpy as np

from service.engine.constraints.byte_vocabulary import ByteVocabulary
from service.engine.constraints.ending import Ending
from service.engine.constraints.schema_error import explain_rejection
from service.engine.tokens.plain_encoder import PlainEncoder
from service.engine.tokens.tokenizer import Vocabulary
from service.generation.errors import ConstraintFailed, UnsupportedConstraint
from service.generation.formats.constraint import Grammar

_SILENT = 0
_NUM_TRIAL_TOKENS = 4
# The longest text in bytes, and the number of texts, whose tokens are kept: the fixed texts of grammars are tokenized
# again and again, each time in about 15 µs of the engine's thread.
_MOST_KEPT, _NUM_KEPT = 64, 4_096

# The parser's limit of items for one token, on the engine's thread: 10,000 items take about 60 ms. A grammar that needs
# more is ambiguous in hundreds of ways; an object with 500 optional properties needs more than 5,000.
_MAX_ITEMS, _MAX_ITEMS_OF_SCHEMAS = 5_000, 10_000

_Key: TypeAlias = tuple[str, frozenset[str]]  # a grammar's text and its lenient schemas


class GrammarConstraint:
    """A `ConstraintState` that follows a grammar token by token."""

    def __init__(self, matcher: Any, tokenizer: Any, num_words: int, ending: Ending | None = None) -> None:
        """`num_words` is the number of int32 words of a mask with one bit per token of `tokenizer`, llguidance's.

        `ending` is the ending of the same state, if answers must end within their token limit.
        """
        self._ending = ending
        self._replacement: tuple[int, Ending] | None = None  # the token to be accepted next, and the ending after it
        self._matcher = matcher
        self._tokenizer = tokenizer
        self._num_words = num_words

    @property
    def is_free(self) -> bool:
        """False: a grammar has a mask for each token."""
        return False

    def fill_mask(self, mask: Any) -> None:
        """Write the allowed tokens into `mask`, an int32 row. Tokens beyond the vocabulary are not allowed.

        A model's head may have more or fewer rows than the tokenizer has tokens. Raise ConstraintFailed if the grammar
        exceeds its limits.
        """
        own = mask[: self._num_words] if len(mask) >= self._num_words else np.zeros(self._num_words, np.int32)
        self._matcher.unsafe_compute_mask_ptr(own.ctypes.data, own.nbytes)
        mask[: len(own)] = own[: len(mask)]
        mask[len(own) :] = 0
        self._check()

    def shortest(self) -> int | None:
        """Return the number of tokens of the shortest remaining text, or None if unknown."""
        return self._ending.num_tokens if self._ending is not None and self._ending.is_known else None

    def replace_token(self, token_id: int, num_left: int) -> int:
        """Return the token to append for `token_id`: another one if the text could not end within `num_left` tokens."""
        if self._ending is None or self._ending.is_end(token_id):
            return token_id
        after = self._ending.after(token_id, num_left - 1)
        if after is None and self._ending.fits(num_left):
            token_id = self._ending.next_token()
            after = self._ending.after(token_id, num_left - 1)
        self._replacement = (token_id, after) if after is not None else None
        return token_id

    def forced_tokens(self) -> list[int]:
        """Return the usual tokens of the forced text; other tokenizations of it are allowed too."""
        return list(self._matcher.compute_ff_tokens())

    def accept(self, token_id: int) -> None:
        """Advance by a token. Raise ConstraintFailed if the grammar does not allow it."""
        if self._ending is not None:
            if self._replacement is not None and self._replacement[0] == token_id:
                self._ending = self._replacement[1]
            else:
                self._ending = self._ending.after(token_id, None)
            self._replacement = None
        self._matcher.consume_token(token_id)
        self._check()

    def is_finished(self) -> bool:
        """Return True if only the end of the text may follow."""
        return bool(self._matcher.is_stopped())

    def fork(self) -> GrammarConstraint:
        """Return an independent copy for another choice."""
        ending = self._ending.fork() if self._ending is not None else None
        return GrammarConstraint(self._matcher.deep_copy(), self._tokenizer, self._num_words, ending)

    def is_accepting(self) -> bool:
        """Return True if the text may end here."""
        return bool(self._matcher.is_accepting())

    def follow(self, data: bytes) -> bool:
        """Advance by a text in any tokenization. Return False if the grammar rejects it; the state is then invalid."""
        token_ids = self._tokenizer.tokenize_bytes(data) if data else []
        num_taken = int(self._matcher.try_consume_tokens(token_ids)) if token_ids else 0
        self._check()
        if self._ending is not None and data:
            self._ending = self._ending.after_text(data)
        return num_taken == len(token_ids)

    def _check(self) -> None:
        if self._matcher.is_error():
            raise ConstraintFailed("the output constraint can't continue")


class _Vocabulary:
    """A vocabulary for llguidance in which text never becomes a control token, even if it spells one."""

    def __init__(self, tokenizer: Vocabulary, control_token_ids: abc.Iterable[int], eos_token_id: int) -> None:
        self.eos_token_id = eos_token_id
        self.bos_token_id = None
        self.special_token_ids = sorted(control_token_ids)
        self.tokens = [tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)]
        self._encoder = PlainEncoder(tokenizer.json)
        self._kept = lru_cache(_NUM_KEPT)(self._encode)

    def __call__(self, text: str | bytes) -> list[int]:
        return self._kept(text) if len(text) <= _MOST_KEPT else self._encode(text)

    def _encode(self, text: str | bytes) -> list[int]:
        return self._encoder.encode(text if isinstance(text, str) else text.decode(errors="replace"))


class GrammarCompiler:
    """Compiles grammars for one tokenizer and keeps the latest. Any thread may call it."""

    def __init__(
        self,
        tokenizer: Vocabulary,
        control_token_ids: abc.Mapping[str, int],
        eos_token_ids: abc.Collection[int],
        *,
        max_grammar_characters: int = 1_000_000,
        max_cached_grammars: int = 128,
        max_cached_characters: int = 8_000_000,
        ends_in_time: bool = True,
    ) -> None:
        """`control_token_ids` are the ids that are not text; `eos_token_ids`, at least one, end the text.

        `max_grammar_characters` limits the text of one grammar; the other two limits apply to the cache. With
        `ends_in_time`, constraints can end within a token limit, if the vocabulary allows the search for a path.
        """
        vocabulary = _Vocabulary(tokenizer, control_token_ids.values(), min(eos_token_ids))
        self._tokenizer = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(vocabulary), eos_token=sorted(eos_token_ids)
        )
        self._num_words = (self._tokenizer.vocab_size + 31) // 32
        self._bytes: ByteVocabulary | None = None
        if ends_in_time:
            with suppress(ValueError):  # the vocabulary has fewer tokens than there are bytes
                self._bytes = ByteVocabulary(tokenizer, self._tokenizer, control_token_ids.values(), eos_token_ids)
        self._max_grammar_characters = max_grammar_characters
        self._max_cached_grammars = max_cached_grammars
        self._max_cached_characters = max_cached_characters
        self._cache: OrderedDict[_Key, GrammarConstraint] = OrderedDict()
        self._num_cached_characters = 0
        self._lock = threading.Lock()  # worker threads share the cache; the engine never waits for it

    def compile(self, grammar: Grammar) -> GrammarConstraint:
        """Return the initial state. Raise UnsupportedConstraint with the field and the unsupported part."""
        key = grammar.text, frozenset(grammar.schemas[field] for field in grammar.lenient)
        with self._lock:
            if (cached := self._cache.get(key)) is not None:
                self._cache.move_to_end(key)
                return cached.fork()
        if len(grammar.text) > self._max_grammar_characters:
            raise UnsupportedConstraint(
                grammar.field,
                f"the constraint has {len(grammar.text)} characters as a grammar; "
                f"the limit is {self._max_grammar_characters}",
            )
        constraint = self._compiled(self._enforceable(grammar), ends_in_time=True)
        self._cache_grammar(key, constraint)
        return constraint.fork()

    def cached_grammars(self) -> list[str]:
        """Return the texts of cached grammars, the least recently used first."""
        with self._lock:
            return [text for text, _ in self._cache]

    def _enforceable(self, grammar: Grammar) -> Grammar:
        """Return the grammar, with replacements of lenient schemas that cannot be enforced."""
        required = {schema for field, schema in grammar.schemas.items() if field not in grammar.lenient}
        unenforceable = [
            field
            for field in grammar.lenient
            if grammar.schemas[field] not in required and not self._can_enforce(grammar.schemas[field])
        ]
        return grammar.without(*unenforceable)

    def _can_enforce(self, schema: str) -> bool:
        """Return whether a JSON schema can be compiled."""
        try:
            self._compiled(Grammar(f"start: %json {schema}\n", "", schemas={"": schema}))
        except UnsupportedConstraint:
            return False
        return True

    def _compiled(self, grammar: Grammar, *, ends_in_time: bool = False) -> GrammarConstraint:
        """Compile a grammar, with an ending if `ends_in_time`. Raise UnsupportedConstraint."""
        matcher = _matcher(self._tokenizer, grammar.text, grammar.schemas)
        if matcher.is_error():
            raise self._rejection(grammar, matcher.get_error())
        constraint = GrammarConstraint(matcher, self._tokenizer, self._num_words)
        self._try(grammar, constraint)
        if ends_in_time and self._bytes is not None:
            of_bytes = _matcher(self._bytes.tokenizer, grammar.text, grammar.schemas)
            ending = Ending.first(self._bytes, of_bytes, grammar.texts)
            return GrammarConstraint(matcher, self._tokenizer, self._num_words, ending)
        return constraint

    def _try(self, grammar: Grammar, constraint: GrammarConstraint) -> None:
        """Follow the grammar for a few tokens, so that a failure is reported at once and not in an answer."""
        trial = constraint.fork()
        mask = np.zeros(self._num_words, np.int32)
        try:
            for _ in range(_NUM_TRIAL_TOKENS):
                trial.fill_mask(mask)
                allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
                if len(allowed) == 0:
                    raise UnsupportedConstraint(grammar.field, "no text matches the constraint")
                trial.accept(int(allowed[0]))
                if trial.is_finished():
                    return
        except ConstraintFailed as error:
            raise UnsupportedConstraint(grammar.field, "the constraint is too complex to be enforced") from error

    def _rejection(self, grammar: Grammar, error: str) -> UnsupportedConstraint:
        """Return the error for a grammar. It names the first schema that can't be compiled alone, if there is one."""
        for field, schema in grammar.schemas.items():
            text = llguidance.LLMatcher.grammar_from_json_schema(schema)
            matcher = _matcher(self._tokenizer, text, [field])
            if matcher.is_error():
                return UnsupportedConstraint(field, explain_rejection(schema, matcher.get_error()))
        return UnsupportedConstraint(grammar.field, error.strip() or "the constraint can't be compiled")

    def _cache_grammar(self, key: _Key, constraint: GrammarConstraint) -> None:
        """Cache a compiled grammar, and evict the oldest ones above the limits."""
        with self._lock:
            if key not in self._cache:
                self._num_cached_characters += len(key[0])
            self._cache[key] = constraint
            while len(self._cache) > self._max_cached_grammars or (
                self._num_cached_characters > self._max_cached_characters
            ):
                oldest, _ = self._cache.popitem(last=False)
                self._num_cached_characters -= len(oldest[0])


def _matcher(tokenizer: Any, text: str, schemas: abc.Collection[str]) -> Any:
    """Return a grammar's initial state; `schemas` are the fields of the schemas that it was made from, if any."""
    limits = llguidance.LLParserLimits(
        step_max_items=_MAX_ITEMS_OF_SCHEMAS if schemas else _MAX_ITEMS, verbose_errors=False
    )
    return llguidance.LLMatcher(tokenizer, text, log_level=_SILENT, limits=limits)

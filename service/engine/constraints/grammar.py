"""Grammars, compiled for a tokenizer."""

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
from service.engine.constraints.refusal import blame
from service.engine.tokens.plain_encoder import PlainEncoder
from service.engine.tokens.tokenizer import Tokenizer
from service.generation.errors import ConstraintFailed, UnsupportedConstraint
from service.generation.formats.constraint import Grammar

_SILENT = 0
_NUM_TRIAL_TOKENS = 4
# Bytes of a text, and number of texts, whose tokens are kept: the grammars' own words are cut into tokens again and
# again, each time in about 15 µs of the engine's thread.
_MOST_KEPT, _NUM_KEPT = 64, 4_096

# Items that the parser may look at for one token, on the engine's thread: 10,000 take it about 60 ms. A grammar that
# needs more is ambiguous in hundreds of ways; an object of 500 optional properties needs more than 5,000.
_MAX_ITEMS, _MAX_ITEMS_OF_SCHEMAS = 5_000, 10_000

_Key: TypeAlias = tuple[str, frozenset[str]]  # a grammar's text, and its lenient schemas


class GrammarConstraint:
    """A `ConstraintState` that follows a grammar token by token."""

    def __init__(self, matcher: Any, tokenizer: Any, num_words: int, ending: Ending | None = None) -> None:
        """`num_words` is the number of int32 words that hold one bit a token of `tokenizer`, llguidance's.

        `ending` is that of the same state, where answers are to end in time.
        """
        self._ending = ending
        self._settled: tuple[int, Ending] | None = None  # a token that is to be accepted, and the ending behind it
        self._matcher = matcher
        self._tokenizer = tokenizer
        self._num_words = num_words

    @property
    def is_free(self) -> bool:
        """Always False, because a grammar has a mask for each token."""
        return False

    def fill_mask(self, words: Any) -> None:
        """Write the allowed tokens into `words`, an int32 row; what is beyond the vocabulary isn't allowed.

        A model's head may have more rows than the tokenizer has tokens, or fewer. Raises ConstraintFailed if the
        grammar runs into its limits.
        """
        mask = words[: self._num_words] if len(words) >= self._num_words else np.zeros(self._num_words, np.int32)
        self._matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        words[: len(mask)] = mask[: len(words)]
        words[len(mask) :] = 0
        self._check()

    def shortest(self) -> int | None:
        """Return the number of tokens of the shortest remaining text, or None if unknown."""
        return self._ending.num_tokens if self._ending is not None and self._ending.is_known else None

    def settle(self, token_id: int, room: int) -> int:
        """Return the token to accept for `token_id`: another one if the text could not end within `room` tokens."""
        if self._ending is None or self._ending.is_end(token_id):
            return token_id
        after = self._ending.after(token_id, room - 1)
        if after is None and self._ending.fits(room):
            token_id = self._ending.next_token()
            after = self._ending.after(token_id, room - 1)
        self._settled = (token_id, after) if after is not None else None
        return token_id

    def forced_tokens(self) -> list[int]:
        """Return the usual tokens of the forced text; other tokenizations of it are allowed too."""
        return list(self._matcher.compute_ff_tokens())

    def accept(self, token_id: int) -> None:
        """Advance by a token. Raise ConstraintFailed if the grammar does not allow it."""
        if self._ending is not None:
            is_settled = self._settled is not None and self._settled[0] == token_id
            self._ending = self._settled[1] if is_settled and self._settled else self._ending.after(token_id, None)
            self._settled = None
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
            self._ending = self._ending.behind(data)
        return num_taken == len(token_ids)

    def _check(self) -> None:
        if self._matcher.is_error():
            raise ConstraintFailed("the output constraint can't go on")


class _Vocabulary:
    """A vocabulary for llguidance in which text never becomes a control token, even if it spells one."""

    def __init__(self, tokenizer: Tokenizer, control_token_ids: abc.Iterable[int], eos_token_id: int) -> None:
        self.eos_token_id = eos_token_id
        self.bos_token_id = None
        self.special_token_ids = sorted(control_token_ids)
        self.tokens = [tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)]
        self._encoder = PlainEncoder(tokenizer)
        self._kept = lru_cache(_NUM_KEPT)(self._encode)

    def __call__(self, text: str | bytes) -> list[int]:
        return self._kept(text) if len(text) <= _MOST_KEPT else self._encode(text)

    def _encode(self, text: str | bytes) -> list[int]:
        return self._encoder.encode(text if isinstance(text, str) else text.decode(errors="replace"))


class GrammarCompiler:
    """Compiles grammars for one tokenizer and keeps the latest. Any thread may call it."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        control_token_ids: abc.Mapping[str, int],
        eos_token_ids: abc.Collection[int],
        *,
        max_grammar_characters: int = 1_000_000,
        max_cached_grammars: int = 128,
        max_cached_characters: int = 8_000_000,
        ends_in_time: bool = True,
    ) -> None:
        """`control_token_ids` are the ids that no text is made of, `eos_token_ids`, at least one, those that end it.

        `max_grammar_characters` limits one grammar's text, the other two what the cache keeps. With `ends_in_time`
        constraints know how to end in a number of tokens, where the vocabulary lets a way be found.
        """
        vocabulary = _Vocabulary(tokenizer, control_token_ids.values(), min(eos_token_ids))
        self._tokenizer = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(vocabulary), eos_token=sorted(eos_token_ids)
        )
        self._num_words = (self._tokenizer.vocab_size + 31) // 32
        self._bytes: ByteVocabulary | None = None
        if ends_in_time:
            with suppress(ValueError):  # a vocabulary of fewer tokens than there are bytes
                self._bytes = ByteVocabulary(tokenizer, self._tokenizer, control_token_ids.values(), eos_token_ids)
        self._max_grammar_characters = max_grammar_characters
        self._max_cached_grammars = max_cached_grammars
        self._max_cached_characters = max_cached_characters
        self._cache: OrderedDict[_Key, GrammarConstraint] = OrderedDict()
        self._num_cached_characters = 0
        self._lock = threading.Lock()  # worker threads share the cache; the engine never waits for it

    def compile(self, grammar: Grammar) -> GrammarConstraint:
        """A constraint in its first state. Raises UnsupportedConstraint naming the field and what can't be enforced."""
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
        constraint = self._made(self._enforceable(grammar), ends_in_time=True)
        self._keep(key, constraint)
        return constraint.fork()

    def cached_grammars(self) -> list[str]:
        """Return the texts of cached grammars, the least recently used first."""
        with self._lock:
            return [text for text, _ in self._cache]

    def _enforceable(self, grammar: Grammar) -> Grammar:
        """Return the grammar, with replacements of lenient schemas that cannot be enforced."""
        demanded = {schema for field, schema in grammar.schemas.items() if field not in grammar.lenient}
        hopeless = [
            field
            for field in grammar.lenient
            if grammar.schemas[field] not in demanded and not self._can_enforce(grammar.schemas[field])
        ]
        return grammar.without(*hopeless)

    def _can_enforce(self, schema: str) -> bool:
        try:
            self._made(Grammar(f"start: %json {schema}\n", "", schemas={"": schema}))
        except UnsupportedConstraint:
            return False
        return True

    def _made(self, grammar: Grammar, *, ends_in_time: bool = False) -> GrammarConstraint:
        matcher = _matcher(self._tokenizer, grammar.text, grammar.schemas)
        if matcher.is_error():
            raise self._refusal(grammar, matcher.get_error())
        constraint = GrammarConstraint(matcher, self._tokenizer, self._num_words)
        self._try(grammar, constraint)
        if ends_in_time and self._bytes is not None:
            of_bytes = _matcher(self._bytes.tokenizer, grammar.text, grammar.schemas)
            ending = Ending.first(self._bytes, of_bytes, grammar.texts)
            return GrammarConstraint(matcher, self._tokenizer, self._num_words, ending)
        return constraint

    def _try(self, grammar: Grammar, constraint: GrammarConstraint) -> None:
        """Follow the grammar for a few tokens, so that an immediate failure is reported here and not in an answer."""
        trial = constraint.fork()
        words = np.zeros(self._num_words, np.int32)
        try:
            for _ in range(_NUM_TRIAL_TOKENS):
                trial.fill_mask(words)
                allowed = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
                if len(allowed) == 0:
                    raise UnsupportedConstraint(grammar.field, "no text matches the constraint")
                trial.accept(int(allowed[0]))
                if trial.is_finished():
                    return
        except ConstraintFailed as error:
            raise UnsupportedConstraint(grammar.field, "the constraint is too complex to be enforced") from error

    def _refusal(self, grammar: Grammar, error: str) -> UnsupportedConstraint:
        for field, schema in grammar.schemas.items():
            text = llguidance.LLMatcher.grammar_from_json_schema(schema)
            matcher = _matcher(self._tokenizer, text, [field])
            if matcher.is_error():
                return UnsupportedConstraint(field, blame(schema, matcher.get_error()))
        return UnsupportedConstraint(grammar.field, error.strip() or "the constraint can't be compiled")

    def _keep(self, key: _Key, constraint: GrammarConstraint) -> None:
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

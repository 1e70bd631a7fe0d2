"""Steer an answer under a grammar so that it ends within its token limit."""

from __future__ import annotations

import time
from collections import abc
from itertools import islice
from typing import Any

from service.engine.constraints.byte_vocabulary import ByteVocabulary
from service.engine.constraints.shortest_path import Effort, PathSearch, is_complete

# The search effort in states: for a compilation, in turns with some of the bytes and with all of them. With some bytes
# an end that none of them leads to is never found; with all of them few tokens are looked ahead.
_FIRST_EFFORTS = ((False, 3_000), (True, 5_000), (False, 27_000))
_EFFORT_TO_COMPARE = 300  # after the first path was found,
_EFFORT = 1_000  # for one token,
_EFFORT_OF_ALL = 30_000  # and for all tokens of a choice
# Processor time in seconds, far above the needs of usual grammars: for the search of a compilation, and for all
# searches of a choice, which delay the other choices.
_FIRST_S, _CHOICE_S = 2.0, 0.5
_AMPLE_TOKENS = (
    512  # with this number of tokens left, plus one per byte of the last known path, the path may be unknown
)
_MAX_REPLACED = 32  # bytes of a known path that a token may have replaced
_LONGEST = 2_000  # bytes of a stored path
_NUM_COMPARED = 8  # paths, of which the one with the fewest tokens is used


class Ending:
    """A grammar's state, with a path from there to the end of a matching text. Immutable.

    The path is short, but not always the shortest.
    """

    def __init__(
        self,
        vocabulary: ByteVocabulary,
        matcher: Any,
        effort: Effort,
        path: list[int],
        plan: list[int] | None,
        *,
        is_known: bool = True,
    ) -> None:
        """`path` is in bytes, `plan` is the same path in tokens if it is known; `effort` is one choice's.

        Unless `is_known`, the path is that of an earlier state; it may become valid again later.
        """
        self.is_known = is_known
        self._vocabulary = vocabulary
        self._matcher = matcher
        self._effort = effort
        self._path = path
        self._plan = plan

    @classmethod
    def first(cls, vocabulary: ByteVocabulary, matcher: Any, texts: abc.Sequence[str] = ()) -> Ending | None:
        """Return the ending of a grammar's initial state; None if the bounded search finds no path.

        `texts` are all matching texts, if they are known.
        """
        if texts:
            paths = [vocabulary.path_of(text.encode()) for text in texts]
            matching = [path for path in paths if is_complete(vocabulary, matcher, path)]
            return cls._shortest(vocabulary, matcher, matching)
        until = time.thread_time() + _FIRST_S
        searches = {
            tries_all_bytes: PathSearch(vocabulary, matcher, Effort(0, 0.0), [], tries_all_bytes=tries_all_bytes)
            for tries_all_bytes in (False, True)
        }
        for tries_all_bytes, limit in _FIRST_EFFORTS:
            search = searches[tries_all_bytes]
            search.effort.num_left, search.effort.seconds_left = limit, until - time.thread_time()
            found = []
            for path in islice(search, _NUM_COMPARED):
                search.effort.num_left = min(search.effort.num_left, _EFFORT_TO_COMPARE)
                found.append(path)
            if (ending := cls._shortest(vocabulary, matcher, found)) is not None:
                return ending
        return None

    @classmethod
    def _shortest(cls, vocabulary: ByteVocabulary, matcher: Any, paths: list[list[int]]) -> Ending | None:
        """Return the ending with the fewest tokens; None if the vocabulary can't spell any path."""
        plans = [(plan, path) for path in paths if (plan := _plan(vocabulary, path)) is not None]
        if not plans:
            return None
        plan, path = min(plans, key=lambda each: (len(each[0]), len(each[1])))
        if len(path) > _LONGEST:  # a token off the path makes the whole path be checked again
            return None
        return cls(vocabulary, matcher, _effort_of_choice(), path, plan)

    def fork(self) -> Ending:
        """Return an independent copy for another choice."""
        return Ending(
            self._vocabulary, self._matcher, _effort_of_choice(), self._path, self._plan, is_known=self.is_known
        )

    @property
    def num_tokens(self) -> int:
        """The number of tokens of the path."""
        tokens = self._tokens()
        return len(self._path if tokens is None else tokens)

    def fits(self, num_left: int) -> bool:
        """Return True if the path is known and has at most `num_left` tokens."""
        if not self.is_known:
            return False
        if self._plan is None and self._vocabulary.has_all_bytes and len(self._path) <= num_left:
            return True  # a token has at least one byte
        tokens = self._tokens()
        return tokens is not None and len(tokens) <= num_left

    def is_end(self, token_id: int) -> bool:
        """Return True if the token ends the text."""
        return token_id in self._vocabulary.eos_token_ids

    def next_token(self) -> int:
        """Return the first token of the path, or the end-of-text token if the path is empty."""
        tokens = self._tokens()
        return tokens[0] if tokens else self._vocabulary.eos_token_id

    def after(self, token_id: int, num_left: int | None) -> Ending | None:
        """Return the ending after a token; None if no path of at most `num_left` tokens from there is known."""
        step = self._vocabulary.path_of_token(token_id)
        if self._plan and token_id == self._plan[0]:
            matcher = self._matcher.deep_copy()
            if matcher.try_consume_tokens(step) == len(step):
                remainder = self._path[len(step) :], self._plan[1:]
                return Ending(self._vocabulary, matcher, self._effort, *remainder)
        return self._after_step(step, num_left)

    def after_text(self, data: bytes) -> Ending | None:
        """Return the ending after a text; None if no path from there is known."""
        return self._after_step(self._vocabulary.path_of(data), None)

    def _after_step(self, step: list[int], num_left: int | None) -> Ending | None:
        """Return the ending after `step`, or None if `step` is not allowed or its paths exceed `num_left` tokens."""
        matcher = self._matcher.deep_copy()
        if matcher.try_consume_tokens(step) != len(step) or matcher.is_error():
            return None
        has_path = False
        for path in self._paths(matcher, step):
            has_path = True
            ending = Ending(self._vocabulary, matcher, self._effort, path, None)
            if num_left is None or ending.fits(num_left):
                return ending
        if has_path or (num_left is not None and num_left < _AMPLE_TOKENS + len(self._path)):
            return None
        return Ending(self._vocabulary, matcher, self._effort, self._path, None, is_known=False)

    def _paths(self, matcher: Any, step: list[int]) -> abc.Iterator[list[int]]:
        """Yield paths after a step: the remainders of the last path, or the result of a search if none is valid."""
        path = self._path
        if matcher.is_accepting():
            yield []
            return
        num_found = 0
        for start in dict.fromkeys((0, len(step), *range(1, min(len(path), _MAX_REPLACED)))):
            if is_complete(self._vocabulary, matcher, path[start:]):
                yield path[start:]
                num_found += 1
                if num_found == 2:
                    break
        if not num_found:
            limit = min(_EFFORT, self._effort.num_left)
            effort = Effort(limit, self._effort.seconds_left)
            began = time.thread_time()
            found = list(islice(PathSearch(self._vocabulary, matcher, effort, path), 1))
            self._effort.num_left -= limit - effort.num_left
            self._effort.seconds_left -= time.thread_time() - began
            yield from found

    def _tokens(self) -> list[int] | None:
        if self._plan is None:
            self._plan = _plan(self._vocabulary, self._path)
        return self._plan


def _effort_of_choice() -> Effort:
    return Effort(_EFFORT_OF_ALL, _CHOICE_S)


def _plan(vocabulary: ByteVocabulary, path: list[int]) -> list[int] | None:
    """Return the tokens of a path; None if the model's vocabulary can't spell it."""
    try:
        return vocabulary.tokens_of(path)
    except ValueError:
        return None

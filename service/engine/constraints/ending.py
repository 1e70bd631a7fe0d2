"""Steer an answer under a grammar so that it ends within its token limit."""

from __future__ import annotations

import time
from collections import abc
from itertools import islice
from typing import Any

from service.engine.constraints.byte_vocabulary import ByteVocabulary
from service.engine.constraints.shortest_path import Effort, Ways, is_way

_FIRST_EFFORTS = {False: 30_000, True: 1_000}  # states to look at when a grammar is compiled, some and then all bytes,
_EFFORT_TO_COMPARE = 300  # once a way is found,
_EFFORT = 1_000  # for one token,
_EFFORT_OF_ALL = 30_000  # and for all tokens of a choice
# Processor time, far above what usual grammars take for all of that: part of the time of a compilation, and as long as
# one choice may hold up all others.
_FIRST_S, _CHOICE_S = 2.0, 0.5
_PLENTY = 512  # tokens, and as many as the last known way has bytes, with which no way is looked for at any price
_MOST_CUT = 32  # bytes of a known way that a token may have made needless
_LONGEST = 2_000  # bytes of a way that is kept
_NUM_COMPARED = 8  # ways of which the one with the fewest tokens is the shortest


class Ending:
    """A grammar's state, and a way from there to the end of a text that matches. It doesn't change.

    The way is a short one, not always the shortest: what it promises is that it is one.
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
        """`path` is the way as bytes, `plan` as tokens, if it is known; `effort` is that of one choice.

        Unless `is_known`, the path is that from an earlier state, from where it may be known again.
        """
        self.is_known = is_known
        self._vocabulary = vocabulary
        self._matcher = matcher
        self._effort = effort
        self._path = path
        self._plan = plan

    @classmethod
    def first(cls, vocabulary: ByteVocabulary, matcher: Any, texts: abc.Sequence[str] = ()) -> Ending | None:
        """That of a grammar's first state; None if no way is found with a bounded effort.

        `texts` are all that match, where they are known.
        """
        if texts:
            paths = [vocabulary.path_of(text.encode()) for text in texts]
            return cls._shortest(vocabulary, matcher, [path for path in paths if is_way(vocabulary, matcher, path)])
        until = time.thread_time() + _FIRST_S
        for tries_all, most in _FIRST_EFFORTS.items():
            effort = Effort(most, until - time.thread_time())
            found = []
            for path in islice(Ways(vocabulary, matcher, effort, [], tries_all=tries_all), _NUM_COMPARED):
                effort.num_left = min(effort.num_left, _EFFORT_TO_COMPARE)
                found.append(path)
            if (ending := cls._shortest(vocabulary, matcher, found)) is not None:
                return ending
        return None

    @classmethod
    def _shortest(cls, vocabulary: ByteVocabulary, matcher: Any, paths: list[list[int]]) -> Ending | None:
        """That with the fewest tokens, if one can be spelled."""
        plans = [(plan, path) for path in paths if (plan := _plan(vocabulary, path)) is not None]
        if not plans:
            return None
        plan, path = min(plans, key=lambda each: (len(each[0]), len(each[1])))
        if len(path) > _LONGEST:  # a token that leaves it has all of it looked at anew
            return None
        return cls(vocabulary, matcher, _effort_of_choice(), path, plan)

    def fork(self) -> Ending:
        """A copy of its own for another choice."""
        return Ending(
            self._vocabulary, self._matcher, _effort_of_choice(), self._path, self._plan, is_known=self.is_known
        )

    @property
    def num_tokens(self) -> int:
        """How many tokens the way has."""
        tokens = self._tokens()
        return len(self._path if tokens is None else tokens)

    def fits(self, room: int) -> bool:
        """Whether the way is known and has at most `room` tokens."""
        if not self.is_known:
            return False
        if self._plan is None and self._vocabulary.spells_all and len(self._path) <= room:
            return True  # a token is a byte at least
        tokens = self._tokens()
        return tokens is not None and len(tokens) <= room

    def is_end(self, token_id: int) -> bool:
        """Whether the token is no part of a text, but ends it."""
        return token_id in self._vocabulary.eos_token_ids

    def next_token(self) -> int:
        """The first token of the way; one that ends the text where that may end."""
        tokens = self._tokens()
        return tokens[0] if tokens else self._vocabulary.eos_token_id

    def after(self, token_id: int, room: int | None) -> Ending | None:
        """That of the state behind a token; None if no way from there, of at most `room` tokens, is known."""
        step = self._vocabulary.path_of_token(token_id)
        if self._plan and token_id == self._plan[0]:
            matcher = self._matcher.deep_copy()
            if matcher.try_consume_tokens(step) == len(step):
                rest = self._path[len(step) :], self._plan[1:]
                return Ending(self._vocabulary, matcher, self._effort, *rest)
        return self._moved(step, room)

    def behind(self, data: bytes) -> Ending | None:
        """That of the state behind a text, if any way is known from there."""
        return self._moved(self._vocabulary.path_of(data), None)

    def _moved(self, step: list[int], room: int | None) -> Ending | None:
        matcher = self._matcher.deep_copy()
        if matcher.try_consume_tokens(step) != len(step) or matcher.is_error():
            return None
        has_way = False
        for path in self._ways(matcher, step):
            has_way = True
            ending = Ending(self._vocabulary, matcher, self._effort, path, None)
            if room is None or ending.fits(room):
                return ending
        if has_way or (room is not None and room < _PLENTY + len(self._path)):
            return None
        return Ending(self._vocabulary, matcher, self._effort, self._path, None, is_known=False)

    def _ways(self, matcher: Any, step: list[int]) -> abc.Iterator[list[int]]:
        """Ways from behind a step: what is left of the one before it, and if that won't do, others."""
        path = self._path
        if matcher.is_accepting():
            yield []
            return
        num_found = 0
        for cut in dict.fromkeys((0, len(step), *range(1, min(len(path), _MOST_CUT)))):
            if is_way(self._vocabulary, matcher, path[cut:]):
                yield path[cut:]
                num_found += 1
                if num_found == 2:
                    break
        if not num_found:
            most = min(_EFFORT, self._effort.num_left)
            effort = Effort(most, self._effort.seconds_left)
            begun = time.thread_time()
            found = list(islice(Ways(self._vocabulary, matcher, effort, path), 1))
            self._effort.num_left -= most - effort.num_left
            self._effort.seconds_left -= time.thread_time() - begun
            yield from found

    def _tokens(self) -> list[int] | None:
        if self._plan is None:
            self._plan = _plan(self._vocabulary, self._path)
        return self._plan


def _effort_of_choice() -> Effort:
    return Effort(_EFFORT_OF_ALL, _CHOICE_S)


def _plan(vocabulary: ByteVocabulary, path: list[int]) -> list[int] | None:
    """The tokens of a path; None if the model's vocabulary can't spell it."""
    try:
        return vocabulary.tokens_of(path)
    except ValueError:
        return None

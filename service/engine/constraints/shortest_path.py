"""Short paths from a grammar's state to a matching text, byte by byte."""

from __future__ import annotations

import time
from collections import abc
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from service.engine.constraints.byte_vocabulary import ByteVocabulary

_WIDTH = 8  # states that are explored for each path cost
_MANY = 24  # possible next bytes, as in a string, above which only some are tried at first:
_BLOCK = 32  # one id of each block of this size
_CONTROL = b"\xff"  # llguidance's prefix of control tokens
_STATES_PER_CHECK = 8  # of the processor time, which takes a tenth of a state's
_CHOICE_COST = 4  # per more likely byte that was not chosen
_LOOP_COST = 4  # of a state that allows exactly what its predecessor did: with many possible bytes, as in a string,
_SHORT_LOOP_COST = 24  # and with few, as in a number or white space


class Effort:
    """The remaining effort of a search, in states that a byte leads to; a state takes about 5 µs.

    For grammars whose states take a thousand times as long, processor time in seconds is limited too.
    """

    def __init__(self, num_left: int, seconds_left: float) -> None:
        self.num_left = num_left
        self.seconds_left = seconds_left


_Trail: TypeAlias = "tuple[_Trail | None, list[int]]"  # steps, the newest one first


_Key: TypeAlias = tuple[bytes | int, ...]  # the mask, preceded by the last step if few bytes are allowed


class _SearchState(NamedTuple):
    """A state of the search; a lower rank means that it is more likely near an end."""

    rank: int
    matcher: Any
    trail: _Trail | None
    cost: int  # the length of the path, and penalties
    mask_before: bytes
    mask: bytes | None = None  # of the ids that may follow; None: not computed yet

    def path(self) -> list[int]:
        """Return the path to the state."""
        steps, trail = [], self.trail
        while trail is not None:
            trail, step = trail
            steps.append(step)
        return [each for step in reversed(steps) for each in step]


class PathSearch:
    """A search for paths after which a text may end, roughly in the order of their length and likelihood.

    A path continues with `hint` as soon as that completes it. Unless `tries_all_bytes`, only some of many possible
    bytes are tried. Of states that allow the same many bytes only one is explored, and one of those that are reached
    by digits. Once its effort is spent, a search with more effort continues where it was.
    """

    def __init__(
        self,
        vocabulary: ByteVocabulary,
        matcher: Any,
        effort: Effort,
        hint: list[int],
        *,
        tries_all_bytes: bool = False,
    ) -> None:
        self._vocabulary = vocabulary
        self.effort = effort
        self._hint = hint
        self._tries_all_bytes = tries_all_bytes
        self._waiting = {0: [_SearchState(0, matcher, None, 0, b"")]}  # by cost
        self._until = 0.0  # in the thread's processor time

    def __iter__(self) -> abc.Iterator[list[int]]:
        """Yield paths, usually the shortest first; none if the effort is spent before one is found."""
        self._until = time.thread_time() + self.effort.seconds_left
        while self._waiting and self.effort.num_left > 0 and not self._is_late():
            states = self._waiting.pop(min(self._waiting))
            seen: set[_Key] = set()
            for state in sorted(states, key=attrgetter("rank")):
                if state.matcher.is_error():
                    continue
                if state.matcher.is_accepting():
                    yield state.path()
                elif self._hint and is_complete(self._vocabulary, state.matcher, self._hint):
                    yield state.path() + self._hint
                elif len(seen) < _WIDTH:
                    self._branch(state, seen)

    def _branch(self, state: _SearchState, seen: set[_Key]) -> None:
        """Queue the successors of a state, unless an equivalent one was expanded. A loop is queued at a higher cost."""
        mask = self._vocabulary.mask_of(state.matcher) if state.mask is None else state.mask
        allowed = self._vocabulary.allowed(mask)
        if mask == state.mask_before:
            loop_cost = _LOOP_COST if len(allowed) > _MANY else _SHORT_LOOP_COST
            self._put(state._replace(cost=state.cost + loop_cost, mask_before=b"", mask=mask))
            return
        step = state.trail[1] if state.trail is not None and len(allowed) <= _MANY else []
        before: list[bytes | int] = [0 if each in self._vocabulary.digit_ids else each for each in step]
        if (key := (mask, *before)) in seen:
            return
        seen.add(key)
        if len(allowed) > _MANY:
            allowed = tuple(sorted(allowed, key=self._vocabulary.quote_id.__ne__))  # a quote closes a string
            if not self._tries_all_bytes:
                allowed = _some(allowed)
        for index, token_id in enumerate(allowed):
            if self.effort.num_left % _STATES_PER_CHECK == 0 and self._is_late():
                return
            self.effort.num_left -= 1
            matcher = state.matcher.deep_copy()
            if matcher.consume_token(token_id):
                forced = self._vocabulary.path_of(matcher.compute_ff_bytes().partition(_CONTROL)[0])
                if forced and matcher.try_consume_tokens(forced) != len(forced):
                    continue
                # With a hint any path to the known one is good enough; without one, the shortest is searched.
                cost = state.cost + (1 + _CHOICE_COST * index if self._hint else 1 + len(forced))
                self._put(_SearchState(state.rank + index, matcher, (state.trail, [token_id, *forced]), cost, mask))

    def _is_late(self) -> bool:
        return time.thread_time() >= self._until

    def _put(self, state: _SearchState) -> None:
        self._waiting.setdefault(state.cost, []).append(state)


def is_complete(vocabulary: ByteVocabulary, matcher: Any, path: list[int]) -> bool:
    """Return True if a text may end after `path` from the matcher's state."""
    return bool(matcher.validate_tokens([*path, vocabulary.eos_token_id]) == len(path) + 1)


def _some(allowed: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first id of each block, in the same order."""
    of_blocks = {each // _BLOCK: each for each in reversed(allowed)}
    return tuple(each for each in allowed if of_blocks[each // _BLOCK] == each)

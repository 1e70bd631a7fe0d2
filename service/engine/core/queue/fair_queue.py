"""The queue of waiting sequences, fair among API keys.

The key with the least service so far is next (virtual token counters, see `accounts`). Within a key, the lowest
priority value is first, then the earliest arrival. Service is the number of tokens computed for a key, of prompts and
answers alike, plus a sixteenth for each logprob that is reported with them. Tokens found in the cache, and tokens
computed again after a preemption, are not counted.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import abc
from operator import attrgetter

from service.engine.core.queue.accounts import Account, Accounts
from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.generation.requests.request import GenerationRequest

_LOGPROBS_PER_TOKEN = 16  # reported logprobs that cost all processes about as much time as a token of a small model
_by_order = attrgetter("order")
_SMALL_LOAD = 0.25  # of the largest load of a key, by weight
_SMALL_SHARE = 0.5  # of a key's share of the slots


class KeyQueue(Account):
    """The queue of one API key: its waiting sequences in order, and the number of its running ones."""

    __slots__ = ("is_batch", "num_running", "waiting")

    def __init__(self, served: float) -> None:
        super().__init__(served)
        self.is_batch = False  # whether its requests are of batches, and yield to all others
        self.num_running = 0  # sequences
        self.waiting: list[Sequence] = []

    @property
    def load(self) -> float:
        """The number of waiting and running sequences by weight."""
        return (self.num_running + len(self.waiting)) / self.weight

    @property
    def rank(self) -> tuple[bool, float, float, int]:
        """The sort key of turns, lowest first: class, service, running sequences by weight, arrival."""
        arrival = self.waiting[0].group.serial if self.waiting else -1
        return self.is_batch, self.served, self.num_running / self.weight, arrival


class FairQueue:
    """The waiting sequences of all keys. It belongs to the scheduler.

    Requests of batches have queues and counters of their own, which no other request's order depends on.
    """

    def __init__(self) -> None:
        self.num_waiting = 0
        self.num_limited = 0  # unfinished requests with a service level
        self._keys = Accounts(KeyQueue)
        self._batches = Accounts(KeyQueue)

    @property
    def active(self) -> abc.Collection[KeyQueue]:
        """The keys that have waiting or running requests, those of batches last."""
        return [*self._keys.active, *self._batches.active] if self.has_batches else self._keys.active

    @property
    def has_batches(self) -> bool:
        """Whether requests of batches are waiting or running."""
        return bool(self._batches.active)

    @property
    def has_others(self) -> bool:
        """Whether requests that are not of batches are waiting or running."""
        return bool(self._keys.active)

    @property
    def others_wait(self) -> bool:
        """Whether sequences that are not of batches wait."""
        return any(key.waiting for key in self._keys.active)

    def key_of(self, sequence: Sequence) -> KeyQueue:
        """Return the queue of a sequence's key."""
        return self._accounts(sequence.request)[sequence.request.caller_id]

    def enter(self, group: SequenceGroup) -> None:
        """Register a new request. Raise ValueError unless its weight is above 0."""
        request = group.request
        accounts = self._accounts(request)
        key = accounts.enter(request.caller_id, request.weight, waits=lambda key: bool(key.waiting))
        key.is_batch = request.is_batch
        self.num_limited += any(group.request.service_level)

    def leave(self, group: SequenceGroup) -> None:
        """Unregister a request that has ended. None of its sequences may wait or run."""
        self.num_limited -= any(group.request.service_level)
        self._accounts(group.request).leave(group.request.caller_id)

    def wait(self, sequence: Sequence) -> None:
        """Enqueue a sequence."""
        insort(self.key_of(sequence).waiting, sequence, key=_by_order)
        self.num_waiting += 1

    def remove(self, group: SequenceGroup) -> None:
        """Dequeue all waiting sequences of a request."""
        key = self._accounts(group.request)[group.request.caller_id]
        left = [sequence for sequence in key.waiting if sequence.group is not group]
        self.num_waiting -= len(key.waiting) - len(left)
        key.waiting = left

    def pop(self, key: KeyQueue) -> Sequence:
        """Dequeue the first waiting sequence of a key."""
        self.num_waiting -= 1
        return key.waiting.pop(0)

    def small_keys(self, num_slots: float, credit: float) -> abc.Set[KeyQueue]:
        """Return the keys that use far less than their share.

        They have at most a quarter of the largest load, by weight, and at most half of their share of `num_slots` or
        one sequence. Keys that were served more than one of the others, by `credit` tokens, are not among them.
        """
        active = self._keys.active
        if len(active) < 2:
            return frozenset()
        limit = _SMALL_LOAD * max(key.load for key in active)
        least = min(key.served for key in active if key.load > limit)
        # A load is the number of sequences by weight, as is a share.
        share = _SMALL_SHARE * num_slots / sum(key.weight for key in active)
        return {
            key
            for key in active
            if 0 < key.load <= min(limit, max(share, 1 / key.weight)) and key.served <= least + credit
        }

    def entitled_keys(self, credit: float) -> abc.Set[KeyQueue]:
        """Return the keys that were not served more than another active one, by `credit` tokens."""
        least = min(key.served for key in self._keys.active)
        return {key for key in self._keys.active if key.served <= least + credit}

    def first_in_time(self, key: KeyQueue, now: float, prompt_token_s: float) -> Sequence | None:
        """Return a key's first waiting sequence, after moving those back that can't have their first token in time."""
        while key.waiting:
            first = key.waiting[0]
            due = first.due
            if due == math.inf or now + first.num_lacking * prompt_token_s <= due:
                return first
            del key.waiting[0]
            if first.first_token is None:
                first.group.first_token_due = math.inf
            insort(key.waiting, first, key=_by_order)
            if key.waiting[0] is first:
                return first
        return None

    def charge(self, sequence: Sequence, num_computed_tokens: int) -> None:
        """Charge a sequence's key for its tokens up to `num_computed_tokens` and their logprobs, each token once."""
        num_charged = sequence.num_charged_tokens
        if num_computed_tokens > num_charged:
            cost: float = num_computed_tokens - num_charged
            if sequence.has_logprobs:
                cost += sequence.num_logprobs(num_charged, num_computed_tokens) / _LOGPROBS_PER_TOKEN
            self.key_of(sequence).charge(cost)
            sequence.num_charged_tokens = num_computed_tokens

    def last(self, sequences: abc.Iterable[Sequence]) -> Sequence:
        """Return the sequence to preempt first: one of a batch, else the last one of the key with the most service."""
        return max(sequences, key=lambda each: (each.request.is_batch, self.key_of(each).served, each.order))

    def _accounts(self, request: GenerationRequest) -> Accounts[KeyQueue]:
        return self._batches if request.is_batch else self._keys


def displaced_key(key: KeyQueue, held: abc.Mapping[KeyQueue, int], capacity: int) -> KeyQueue | None:
    """Return the key that exceeds its share the most, from which `key` may take one unit, or None if there is none.

    `held` has the number of slots or blocks that each active key holds. A key's share is `capacity` divided by weight
    among the active keys, and at least 1. A key takes from another key only up to its own share.
    """
    total_weight = sum(each.weight for each in held)
    excess = {each: num - max(1.0, capacity * each.weight / total_weight) for each, num in held.items()}
    if held[key] and excess[key] + 1 > 0:
        return None
    most = max((each for each in held if each is not key), key=lambda each: excess[each], default=None)
    return most if most is not None and excess[most] > 0 else None

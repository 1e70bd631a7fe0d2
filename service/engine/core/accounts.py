"""Virtual token counters: the service each API key has received, divided by its weight.

After Sheng et al., "Fairness in Serving Large Language Models" (2024): a key's count is of the tokens that were
computed for it, divided by its weight, and the key with the lowest count is served next. A key that comes back, or
comes at all, is lifted to the lowest count of those that are at work, so that nobody saves up credit by being idle.
"""

from __future__ import annotations

from collections import abc
from typing import Generic, TypeVar

_MAX_IDLE = 256  # keys, from which on those without a debt are forgotten


class Account:
    """One key's. What is counted is the engine's to say."""

    __slots__ = ("num_requests", "served", "weight")

    def __init__(self, served: float) -> None:
        self.served = served  # tokens by weight
        self.weight = 1.0  # that of its newest request
        self.num_requests = 0  # that have not ended

    def charge(self, num_tokens: int) -> None:
        """Count what was served."""
        self.served += num_tokens / self.weight


AccountT = TypeVar("AccountT", bound=Account)


class Accounts(Generic[AccountT]):
    """Those of all keys. An idle one is remembered while it has been served more than others, and a little longer."""

    def __init__(self, make: abc.Callable[[float], AccountT]) -> None:
        """`make` opens an account at a count."""
        self._make = make
        self._all: dict[str, AccountT] = {}
        self._active: dict[AccountT, None] = {}
        self._floor = 0.0  # what the last key had been served when no other was left

    def __getitem__(self, caller_id: str) -> AccountT:
        return self._all[caller_id]

    @property
    def active(self) -> abc.Collection[AccountT]:
        """The keys that have requests, whether these wait or run; in the order in which they came."""
        return self._active.keys()

    def enter(self, caller_id: str, weight: float, *, waits: abc.Callable[[AccountT], bool]) -> AccountT:
        """A request has come. A key of which nothing `waits` yet is lifted. Raises ValueError for a weight of 0."""
        if not weight > 0:
            raise ValueError(f"a weight must be above 0, not {weight!r}")
        account = self._all.get(caller_id)
        if account is None:
            self._forget_idle()
            account = self._all[caller_id] = self._make(self._floor)
        if not waits(account):
            others = [each.served for each in self._active if each is not account]
            account.served = max(account.served, min(others, default=account.served))
        account.weight = weight
        account.num_requests += 1
        self._active[account] = None
        return account

    def leave(self, caller_id: str) -> None:
        """A request has ended."""
        account = self._all[caller_id]
        account.num_requests -= 1
        if account.num_requests == 0:
            del self._active[account]
            if not self._active:
                self._floor = max(self._floor, account.served)

    def _forget_idle(self) -> None:
        if len(self._all) - len(self._active) < _MAX_IDLE:
            return
        level = min((account.served for account in self._active), default=self._floor)
        self._all = {name: each for name, each in self._all.items() if each.num_requests or each.served > level}

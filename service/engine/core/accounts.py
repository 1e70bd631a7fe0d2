"""Virtual token counters: the service each API key has received, divided by its weight.

After Sheng et al., "Fairness in Serving Large Language Models" (2024): a key's counter is the number of tokens computed
for it, divided by its weight, and the key with the lowest counter is served next. The counter of a new or returning key
is raised to the lowest counter of the active keys, so that an idle key accumulates no credit.
"""

from __future__ import annotations

from collections import abc
from typing import Generic, TypeVar

_MAX_IDLE = 256  # keys; above this number, idle keys without a debt are dropped


class Account:
    """The service counter of one API key. The engine defines what is counted."""

    __slots__ = ("num_requests", "served", "weight")

    def __init__(self, served: float) -> None:
        self.served = served  # tokens by weight
        self.weight = 1.0  # of the newest request
        self.num_requests = 0  # unfinished

    def charge(self, num_tokens: int) -> None:
        """Add tokens to the service received."""
        self.served += num_tokens / self.weight


AccountT = TypeVar("AccountT", bound=Account)


class Accounts(Generic[AccountT]):
    """The accounts of all keys. An idle key keeps its account at least while its counter is above those of others."""

    def __init__(self, make: abc.Callable[[float], AccountT]) -> None:
        """`make` returns an account with the given initial counter."""
        self._make = make
        self._all: dict[str, AccountT] = {}
        self._active: dict[AccountT, None] = {}
        self._floor = 0.0  # the counter of the last active key when it became idle

    def __getitem__(self, caller_id: str) -> AccountT:
        return self._all[caller_id]

    @property
    def active(self) -> abc.Collection[AccountT]:
        """The keys with unfinished requests, in the order of their arrival."""
        return self._active.keys()

    def enter(self, caller_id: str, weight: float, *, waits: abc.Callable[[AccountT], bool]) -> AccountT:
        """Register a request of a key, and return the key's account.

        The counter is raised unless the key already `waits`. Raise ValueError unless the weight is above 0.
        """
        if not weight > 0:
            raise ValueError(f"a weight must be above 0 (got {weight!r})")
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
        """Unregister a request of a key."""
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

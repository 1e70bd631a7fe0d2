"""Virtual token counters: the service each API key has received, divided by its weight.

After Sheng et al., "Fairness in Serving Large Language Models" (2024): a key's counter is the number of tokens computed
for it, divided by its weight, and the key with the lowest counter is served next. The counter of a new or returning key
is raised to the lowest counter of the active keys, so that an idle key accumulates no credit.
"""

from __future__ import annotations

from collections import abc
from typing import Generic, TypeVar

_MAX_IDLE = 256  # number of idle keys above which those without a debt, a counter above the others', are dropped


class Account:
    """The virtual token counter of one API key. The caller of `charge` decides which tokens count."""

    __slots__ = ("num_requests", "served", "weight")

    def __init__(self, served: float) -> None:
        self.served = served  # the counter: tokens divided by the weight at that time
        self.weight = 1.0  # the key's weight, as of its newest request
        self.num_requests = 0  # unfinished requests

    def charge(self, num_tokens: float) -> None:
        """Add tokens that were computed for the key, or work that costs as much as these, to its counter."""
        self.served += num_tokens / self.weight


AccountT = TypeVar("AccountT", bound=Account)


class Accounts(Generic[AccountT]):
    """The accounts of all API keys, by caller id.

    An idle key keeps its account at least while its counter is above those of the active keys.
    """

    def __init__(self, make_account: abc.Callable[[float], AccountT]) -> None:
        """`make_account` returns an account with the given initial counter."""
        self._make_account = make_account
        self._all: dict[str, AccountT] = {}
        self._active: dict[AccountT, None] = {}
        self._floor = 0.0  # the counter of the last active key when it became idle

    def __getitem__(self, caller_id: str) -> AccountT:
        return self._all[caller_id]

    @property
    def active(self) -> abc.Collection[AccountT]:
        """The accounts of keys with unfinished requests, in the order in which they became active."""
        return self._active.keys()

    def enter(self, caller_id: str, weight: float, *, waits: abc.Callable[[AccountT], bool]) -> AccountT:
        """Register a request of a key, and return the key's account.

        The counter is raised to the lowest of the other active keys, unless `waits(account)` is true: the key has
        requests in the queue already. Raise ValueError unless the weight is above 0.
        """
        if not weight > 0:
            raise ValueError(f"a weight must be above 0 (got {weight!r})")
        account = self._all.get(caller_id)
        if account is None:
            self._forget_idle()
            account = self._all[caller_id] = self._make_account(self._floor)
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
        """Drop the accounts of idle keys that are not above the lowest active counter, if too many keys are idle."""
        if len(self._all) - len(self._active) < _MAX_IDLE:
            return
        level = min((account.served for account in self._active), default=self._floor)
        self._all = {name: each for name, each in self._all.items() if each.num_requests or each.served > level}

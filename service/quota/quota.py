"""Charge calls, in one place: `async with quota.admit(…) as charge`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from service.generation.caller import Caller, Limits
from service.quota.charge import Charge
from service.quota.errors import LimitExceeded, LimitReached
from service.quota.limit import Measure, limits_of
from service.quota.limit_status import LimitStatus
from service.quota.store import Store

TOKENS = (Measure.INPUT_TOKENS, Measure.OUTPUT_TOKENS)


class QuotaObserver(Protocol):
    """Is told of what callers use and are refused; callers by their ids."""

    def on_use(self, caller: str, model: str, num_input: int, num_output: int) -> None:
        """A request has ended, which cost so many tokens."""

    def on_refusal(self, caller: str, model: str, measure: Measure) -> None:
        """A request was refused by a limit."""


class Quota:
    """Charges requests by their callers' limits, and by those of models."""

    def __init__(
        self,
        store: Store,
        observer: QuotaObserver,
        limits_by_model: Mapping[str, Limits],
        expected_output_tokens: int,
    ) -> None:
        """`limits_by_model` hold for all callers together.

        `expected_output_tokens` are charged for an answer whose length the caller doesn't bound, until it has ended.
        """
        self._store = store
        self._observer = observer
        self._limits_by_model = limits_by_model
        self._expected_output_tokens = expected_output_tokens

    @asynccontextmanager
    async def admit(
        self,
        caller: Caller,
        model: str,
        on_status: Callable[[Sequence[LimitStatus]], None],
        uses: Collection[Measure] = TOKENS,
    ) -> AsyncIterator[Charge]:
        """Let a request in, for as long as the block runs.

        `tells` is told where the caller stands, also before a refusal. Entry raises RateLimited, ConcurrencyLimited,
        LimitExceeded or QuotaUnavailable.
        """
        limits = limits_of(caller, model, self._limits_by_model)
        charge = Charge(self._store, limits, on_status, self._expected_output_tokens)
        error: BaseException | None = None
        try:
            await charge.open(uses)
            yield charge
        except (LimitReached, LimitExceeded) as refusal:
            error = refusal
            self._observer.on_refusal(caller.id, model, refusal.limit.measure)
            raise
        except BaseException as raised:
            error = raised
            raise
        finally:
            used = charge.close(error)
            if used.prompt_tokens or used.completion_tokens:
                self._observer.on_use(caller.id, model, used.prompt_tokens, used.completion_tokens)

    async def start(self) -> None:
        """Find the store, which need not be there."""
        await self._store.start()

    async def close(self) -> None:
        """End what is still on its way to the store."""
        await self._store.close()

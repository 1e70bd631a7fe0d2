"""Charge calls: `async with quota.admit(…) as charge`."""

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
    """Observes usage and rejections, by the ids of callers."""

    def on_use(self, caller: str, model: str, num_input: int, num_output: int) -> None:
        """Record the usage of a request that has ended."""

    def on_rejection(self, caller: str, model: str, measure: Measure) -> None:
        """Record the rejection of a request by a limit."""


class Quota:
    """Charges requests to the limits of their callers and models."""

    def __init__(
        self,
        store: Store,
        observer: QuotaObserver,
        limits_by_model: Mapping[str, Limits],
        expected_output_tokens: int,
    ) -> None:
        """`limits_by_model` are shared by all callers.

        `expected_output_tokens` are charged for an answer without `max_tokens` until it has ended.
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
        """Admit a request for the duration of the block.

        `on_status` is called with the state of the caller's limits, also before a rejection. Entry raises RateLimited,
        ConcurrencyLimited, LimitExceeded or QuotaUnavailable.
        """
        limits = limits_of(caller, model, self._limits_by_model)
        charge = Charge(self._store, limits, on_status, self._expected_output_tokens)
        error: BaseException | None = None
        try:
            await charge.open(uses)
            yield charge
        except (LimitReached, LimitExceeded) as rejection:
            error = rejection
            self._observer.on_rejection(caller.id, model, rejection.limit.measure)
            raise
        except BaseException as raised:
            error = raised
            raise
        finally:
            used = charge.close(error)
            if used.prompt_tokens or used.completion_tokens:
                self._observer.on_use(caller.id, model, used.prompt_tokens, used.completion_tokens)

    async def start(self) -> None:
        """Connect to the store, which may be unavailable."""
        await self._store.start()

    async def close(self) -> None:
        """Finish pending operations of the store."""
        await self._store.close()

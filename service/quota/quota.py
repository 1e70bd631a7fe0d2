"""Charge calls: `async with quota.admit(…) as charge`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from service.generation.caller import Caller, Limits
from service.generation.requests.answer_request import AnswerRequest
from service.quota.charge import Charge
from service.quota.errors import LimitExceeded, LimitReached
from service.quota.limit import Limit, Measure, limits_of, own_limits
from service.quota.limit_status import LimitStatus
from service.quota.store import Demand, Draw, Slots, Store
from service.quota.usage import LimitState, Usage, UsageRecords

TOKENS = (Measure.INPUT_TOKENS, Measure.OUTPUT_TOKENS)
_PER_MINUTE = {Measure.REQUESTS, *TOKENS}


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
        self._records = UsageRecords()

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
        charge = self._charge(caller, model, on_status)
        error: BaseException | None = None
        try:
            await charge.open(uses)
            yield charge
        except (LimitReached, LimitExceeded) as rejection:
            error = rejection
            self._records.count(caller.id).of(model).num_rejected += 1
            self._observer.on_rejection(caller.id, model, rejection.limit.measure)
            raise
        except BaseException as raised:
            error = raised
            raise
        finally:
            used = charge.close(error)
            if used.prompt_tokens or used.completion_tokens:
                self._observer.on_use(caller.id, model, used.prompt_tokens, used.completion_tokens)
                counted = self._records.count(caller.id).of(model)
                counted.num_requests += 1
                counted.num_input += used.prompt_tokens
                counted.num_output += used.completion_tokens

    def bound(self, caller: Caller, model: str, request: AnswerRequest) -> AnswerRequest:
        """Return a request with the caller's maximum of `max_tokens`, if it has none. Raise LimitExceeded."""
        return self._charge(caller, model, lambda _: None).bound(request)

    def _charge(self, caller: Caller, model: str, on_status: Callable[[Sequence[LimitStatus]], None]) -> Charge:
        limits = limits_of(caller, model, self._limits_by_model)
        return Charge(self._store, limits, on_status, self._expected_output_tokens)

    async def usage_of(self, caller: Caller) -> Usage:
        """Return a caller's usage, and the state of its own limits. Raise QuotaUnavailable."""
        limits = own_limits(caller)
        per_minute = [each for each in limits if each.measure in _PER_MINUTE]
        concurrent = [each for each in limits if each.measure is Measure.CONCURRENT_REQUESTS]
        states: dict[Limit, LimitState] = {}
        if per_minute or concurrent:
            reading = await self._store.take(  # a demand that can't be granted, and so takes nothing
                Demand(
                    draws=[Draw(each.bucket, 0, each.value + 1) for each in per_minute],
                    slots=[Slots(each.name, 0) for each in concurrent],
                )
            )
            for limit, behind_s in zip(per_minute, reading.behind_s, strict=True):
                states[limit] = LimitState(limit, LimitStatus(limit, behind_s).num_left, behind_s)
            for limit, num_held in zip(concurrent, reading.num_held, strict=True):
                states[limit] = LimitState(limit, max(0, limit.value - num_held))
        return Usage(self._records.of(caller.id), [states.get(each) or LimitState(each) for each in limits])

    async def start(self) -> None:
        """Connect to the store, which may be unavailable."""
        await self._store.start()

    async def close(self) -> None:
        """Finish pending operations of the store."""
        await self._store.close()

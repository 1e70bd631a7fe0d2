"""Charge a call to its key's limits, and attach the state of the limits to the answer or the rejection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

from service.calls.call import current_call, current_caller
from service.quota.charge import Charge
from service.quota.errors import LimitExceeded, LimitReached
from service.quota.limit import Measure
from service.quota.limit_status import LimitStatus, rate_limit_headers
from service.quota.quota import TOKENS, Quota


@asynccontextmanager
async def admitted(quota: Quota, model: str, uses: Collection[Measure] = TOKENS) -> AsyncIterator[Charge]:
    """Charge the current call's use of `model` while the block runs. Raise what `Quota.admit` raises."""
    try:
        async with quota.admit(current_caller(), model, _report_limits, uses) as charge:
            yield charge
    except (LimitReached, LimitExceeded) as rejection:
        if (call := current_call()) is not None:
            call.add_log_fields({"limit": rejection.limit.measure.value, "limited": rejection.limit.subject})
        raise


def _report_limits(statuses: Sequence[LimitStatus]) -> None:
    """Set the limits that the current call's response reports."""
    if (call := current_call()) is not None:
        call.rate_limits = tuple(rate_limit_headers(statuses))

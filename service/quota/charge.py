"""One request's charge to its key's limits: taken, and given back.

At the door: a request of those a minute, a place of those at a time, and no more work for callers without tokens. Once
its prompt is read: the prompt's tokens, and as many as the answer may have. At its end, what wasn't used goes back.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from service.generation.answer_request import AnswerRequest
from service.generation.errors import EngineClosed, EngineFailed, RetryLater
from service.generation.events import Usage
from service.generation.request import GenerationRequest
from service.quota.errors import ConcurrencyLimited, LimitExceeded, LimitReached, RateLimited
from service.quota.limit import Limit, Measure
from service.quota.limit_status import LimitStatus
from service.quota.store import Demand, Draw, Reading, Store

_CONCURRENCY_RETRY_S = 1.0  # nobody knows when another request of the caller will end
_OURS = (RetryLater, EngineClosed, EngineFailed)  # what the caller can do nothing about


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What the store granted: `limits` has one for each of the demand's draws."""

    limits: Sequence[Limit]
    demand: Demand
    give_back: Callable[[Demand], None]


class Charge:
    """One request's account, from its `open` to its `close`."""

    def __init__(
        self,
        store: Store,
        limits: Sequence[Limit],
        on_status: Callable[[Sequence[LimitStatus]], None],
        expected_output_tokens: int,
    ) -> None:
        """`on_status` takes the caller's limits whenever they are known."""
        self._store = store
        self._limits = limits
        self._on_status = on_status
        self._expected_output_tokens = expected_output_tokens
        self._drawn: list[_Drawn] = []
        self._statuses: dict[Limit, LimitStatus] = {}
        self._usage: Callable[[], Usage] | None = None

    async def open(self, uses: Collection[Measure]) -> None:
        """Let the request in; `uses` are the limits of tokens that will count.

        Raises RateLimited, ConcurrencyLimited, LimitExceeded, or QuotaUnavailable.
        """
        limits = [each for each in self._limits if each.measure is Measure.REQUESTS or each.measure in uses]
        places = [each for each in self._limits if each.measure is Measure.CONCURRENT_REQUESTS]
        for limit in (*limits, *places):
            if limit.value < 1:
                raise LimitExceeded.of_minute("model", 1, limit)
        draws = [Draw(each.bucket, int(each.measure is Measure.REQUESTS), 1) for each in limits]
        await self._take(limits, draws, places)

    def bound(self, asked: AnswerRequest) -> AnswerRequest:
        """`asked` with the largest `max_tokens` that the caller may have, where it says none. Raises LimitExceeded."""
        for limit in self._limits:
            if limit.measure is Measure.MAX_N and asked.n > limit.value:
                raise LimitExceeded.of_value("n", asked.n, limit)
            if limit.measure is Measure.MAX_TOKENS and (asked.stopping.max_tokens or 0) > limit.value:
                raise LimitExceeded.of_value(asked.max_tokens_field, asked.stopping.max_tokens or 0, limit)
        largest = min((each.value for each in self._limits if each.measure is Measure.MAX_TOKENS), default=None)
        if largest is None or asked.stopping.max_tokens is not None:
            return asked
        return replace(asked, stopping=replace(asked.stopping, max_tokens=largest))

    async def take_for(self, asked: AnswerRequest, requests: Sequence[GenerationRequest]) -> None:
        """Take the tokens of the prompts, and those that the answers may have.

        That is `max_tokens` of each answer where the caller asked for so many, and the expected number else, as far as
        the limit goes. Raises as `open` does.
        """
        num_input = sum(len(request.prompt_token_ids) for request in requests)
        num_most = sum(request.n * (request.stopping.max_tokens or 0) for request in requests)
        is_asked = asked.stopping.max_tokens is not None
        if not is_asked:
            num_most = sum(
                request.n * min(request.stopping.max_tokens or 0, self._expected_output_tokens) for request in requests
            )
        limits, draws = [], []
        for limit in self._limits:
            if limit.measure is Measure.INPUT_TOKENS:
                field, num_tokens = asked.prompts_field, num_input
            elif limit.measure is Measure.OUTPUT_TOKENS:
                field, num_tokens = asked.max_tokens_field, num_most if is_asked else min(num_most, limit.value)
            else:
                continue
            limits.append(limit)
            draws.append(_draw(limit, field, num_tokens))
        await self._take(limits, draws)

    async def take_input(self, num_tokens: int, field: str) -> None:
        """Take the tokens of what is only read. Raises as `open` does."""
        limits = [each for each in self._limits if each.measure is Measure.INPUT_TOKENS]
        await self._take(limits, [_draw(each, field, num_tokens) for each in limits])

    def count(self, usage: Callable[[], Usage]) -> None:
        """The engine took the request: from here on it costs what `usage()` says."""
        self._usage = usage

    def close(self, error: BaseException | None) -> Usage:
        """Give back what wasn't used, and return what was. `error` is what the request ended by, if it failed."""
        used = self._usage() if self._usage is not None else Usage(0)
        num_requests = 1
        if isinstance(error, _OURS):  # an answer that goes on elsewhere is charged there
            used, num_requests = Usage(0), 0
        by_measure = {
            Measure.REQUESTS: num_requests,
            Measure.INPUT_TOKENS: used.prompt_tokens,
            Measure.OUTPUT_TOKENS: used.completion_tokens,
        }
        for drawn in self._drawn:
            draws = []
            for limit, draw in zip(drawn.limits, drawn.demand.draws, strict=True):
                num_unused = draw.num_tokens - by_measure[limit.measure]
                if num_unused and draw.num_tokens:
                    draws.append(replace(draw, num_tokens=num_unused))
                    behind_s = self._statuses[limit].behind_s - draw.bucket.refill_s(num_unused)
                    self._statuses[limit] = LimitStatus(limit, max(0.0, behind_s))
            if draws or drawn.demand.places:
                drawn.give_back(replace(drawn.demand, draws=draws))
        if self._statuses:
            self._on_status(list(self._statuses.values()))
        return used

    async def _take(self, limits: Sequence[Limit], draws: Sequence[Draw], places: Sequence[Limit] = ()) -> None:
        if not draws and not places:
            return
        demand = Demand(draws, [each.places for each in places], uuid.uuid4().hex)
        reading = await self._store.take(demand)
        for limit, behind_s in zip(limits, reading.behind_s, strict=True):
            self._statuses[limit] = LimitStatus(limit, behind_s)
        if reading.is_granted:
            self._drawn.append(_Drawn(limits, demand, reading.give_back))
        self._on_status(list(self._statuses.values()))
        if not reading.is_granted:
            raise _refusal(limits, places, demand, reading)


def _draw(limit: Limit, field: str, num_tokens: int) -> Draw:
    if num_tokens > limit.value:
        raise LimitExceeded.of_minute(field, num_tokens, limit)
    return Draw(limit.bucket, num_tokens, num_tokens)


def _refusal(limits: Sequence[Limit], places: Sequence[Limit], demand: Demand, reading: Reading) -> LimitReached:
    """Of what isn't there, what takes the longest to come; a place, if all else is there."""
    waits = [
        draw.bucket.wait_s(behind_s, draw.at_least)
        for draw, behind_s in zip(demand.draws, reading.behind_s, strict=True)
    ]
    longest = max(range(len(waits)), key=waits.__getitem__, default=None)
    if longest is not None and waits[longest] > 0:
        draw, bucket = demand.draws[longest], demand.draws[longest].bucket
        num_left = int(bucket.level(reading.behind_s[longest]))
        return RateLimited(limits[longest], draw.at_least, num_left, waits[longest])
    full = next(
        (limit for limit, num_held in zip(places, reading.num_held, strict=True) if num_held >= limit.value), places[0]
    )
    return ConcurrencyLimited(full, _CONCURRENCY_RETRY_S)

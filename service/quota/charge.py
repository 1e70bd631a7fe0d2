"""The charge of one request to the limits of its API key.

On arrival, one request per minute and one concurrent request are taken, and callers without tokens are rejected. Once
the prompt is tokenized, its tokens and the maximum of the answer are taken. At the end, unused tokens are returned.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from service.generation.errors import EngineClosed, EngineFailed, RetryLater
from service.generation.outputs.events import Usage
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.request import GenerationRequest
from service.quota.errors import ConcurrencyLimited, LimitExceeded, LimitReached, RateLimited
from service.quota.limit import Limit, Measure
from service.quota.limit_status import LimitStatus
from service.quota.store import Demand, Draw, Reading, Store

_CONCURRENCY_RETRY_S = 1.0  # it is unknown when another request of the caller will end
_NOT_CHARGED = (RetryLater, EngineClosed, EngineFailed)  # failures that the caller hasn't caused


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A demand granted by the store: `limits` has one element per draw of the demand."""

    limits: Sequence[Limit]
    demand: Demand
    give_back: Callable[[Demand], None]


class Charge:
    """The account of one request, from `open` to `close`."""

    def __init__(
        self,
        store: Store,
        limits: Sequence[Limit],
        on_status: Callable[[Sequence[LimitStatus]], None],
        expected_output_tokens: int,
    ) -> None:
        """`on_status` is called with the state of the caller's limits whenever it is known."""
        self._store = store
        self._limits = limits
        self._on_status = on_status
        self._expected_output_tokens = expected_output_tokens
        self._drawn: list[_Drawn] = []
        self._statuses: dict[Limit, LimitStatus] = {}
        self._usage: Callable[[], Usage] | None = None

    async def open(self, uses: Collection[Measure]) -> None:
        """Admit the request; `uses` are the token limits that apply.

        Raise RateLimited, ConcurrencyLimited, LimitExceeded, or QuotaUnavailable.
        """
        limits = [each for each in self._limits if each.measure is Measure.REQUESTS or each.measure in uses]
        slots = [each for each in self._limits if each.measure is Measure.CONCURRENT_REQUESTS]
        for limit in (*limits, *slots):
            if limit.value < 1:
                raise LimitExceeded.of_minute("model", 1, limit)
        draws = [Draw(each.bucket, int(each.measure is Measure.REQUESTS), 1) for each in limits]
        await self._take(limits, draws, slots)

    def bound(self, request: AnswerRequest) -> AnswerRequest:
        """Return `request` with the caller's maximum of `max_tokens`, if it has none. Raise LimitExceeded."""
        for limit in self._limits:
            if limit.measure is Measure.MAX_N and request.n > limit.value:
                raise LimitExceeded.of_value("n", request.n, limit)
            if limit.measure is Measure.MAX_TOKENS and (request.stopping.max_tokens or 0) > limit.value:
                raise LimitExceeded.of_value(request.max_tokens_field, request.stopping.max_tokens or 0, limit)
        largest = min((each.value for each in self._limits if each.measure is Measure.MAX_TOKENS), default=None)
        if largest is None or request.stopping.max_tokens is not None:
            return request
        return replace(request, stopping=replace(request.stopping, max_tokens=largest))

    async def take_for(self, request: AnswerRequest, requests: Sequence[GenerationRequest]) -> None:
        """Take the tokens of the prompts, and the maximum of the answers.

        The maximum is the request's `max_tokens` for each answer, or else the expected number, up to the limit. Raise
        the same errors as `open`.
        """
        num_input = sum(len(each.prompt_token_ids) for each in requests)
        num_most = sum(each.n * (each.stopping.max_tokens or 0) for each in requests)
        is_limited = request.stopping.max_tokens is not None
        if not is_limited:
            num_most = sum(
                each.n * min(each.stopping.max_tokens or 0, self._expected_output_tokens) for each in requests
            )
        limits, draws = [], []
        for limit in self._limits:
            if limit.measure is Measure.INPUT_TOKENS:
                field, num_tokens = request.prompts_field, num_input
            elif limit.measure is Measure.OUTPUT_TOKENS:
                field, num_tokens = request.max_tokens_field, num_most if is_limited else min(num_most, limit.value)
            else:
                continue
            limits.append(limit)
            draws.append(_draw(limit, field, num_tokens))
        await self._take(limits, draws)

    async def take_input(self, num_tokens: int, field: str) -> None:
        """Take the tokens of a request without generated tokens. Raise the same errors as `open`."""
        limits = [each for each in self._limits if each.measure is Measure.INPUT_TOKENS]
        await self._take(limits, [_draw(each, field, num_tokens) for each in limits])

    def count(self, usage: Callable[[], Usage]) -> None:
        """Record that the engine has accepted the request: from now on it costs `usage()`."""
        self._usage = usage

    def close(self, error: BaseException | None) -> Usage:
        """Return unused tokens to the limits, and return the usage. `error` is the request's error, if it failed."""
        used = self._usage() if self._usage is not None else Usage(0)
        num_requests = 1
        if isinstance(error, _NOT_CHARGED):  # an answer that is resumed elsewhere is charged there
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
            if draws or drawn.demand.slots:
                drawn.give_back(replace(drawn.demand, draws=draws))
        if self._statuses:
            self._on_status(list(self._statuses.values()))
        return used

    async def _take(self, limits: Sequence[Limit], draws: Sequence[Draw], slots: Sequence[Limit] = ()) -> None:
        """Take from all buckets and slots, or from none. Raise the error of the limit that rejects."""
        if not draws and not slots:
            return
        demand = Demand(draws, [each.slots for each in slots], uuid.uuid4().hex)
        reading = await self._store.take(demand)
        for limit, behind_s in zip(limits, reading.behind_s, strict=True):
            self._statuses[limit] = LimitStatus(limit, behind_s)
        if reading.is_granted:
            self._drawn.append(_Drawn(limits, demand, reading.give_back))
        self._on_status(list(self._statuses.values()))
        if not reading.is_granted:
            raise _limit_error(limits, slots, demand, reading)


def _draw(limit: Limit, field: str, num_tokens: int) -> Draw:
    """Return the draw of tokens from a limit's bucket. Raise LimitExceeded if the bucket can never hold them."""
    if num_tokens > limit.value:
        raise LimitExceeded.of_minute(field, num_tokens, limit)
    return Draw(limit.bucket, num_tokens, num_tokens)


def _limit_error(limits: Sequence[Limit], slots: Sequence[Limit], demand: Demand, reading: Reading) -> LimitReached:
    """Return the limit that takes longest to recover; the concurrency limit if the others suffice."""
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
        (limit for limit, num_held in zip(slots, reading.num_held, strict=True) if num_held >= limit.value), slots[0]
    )
    return ConcurrencyLimited(full, _CONCURRENCY_RETRY_S)

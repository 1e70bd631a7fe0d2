"""The admission controller of a generator: it rejects what could not begin, or be complete, in time.

Its invariant: admitted work never exceeds what the measured rates finish within the promised time. The time promised to
every request is the maximal wait for its first step; a service level promises more (`promises`). During an overload,
the requests in flight are limited to the number at which an answer takes at most `overload_slowdown` times as long as
alone.
"""

from __future__ import annotations

import math
from collections import abc

from service.engine.client.admission.in_flight_limiter import InFlightLimiter
from service.engine.client.admission.promises import Promise, Rates, shortage_s
from service.engine.client.admission.queue_growth import QueueGrowth
from service.engine.client.admission.queue_share import QueuedRequest, QueueShare
from service.engine.client.admission.queue_wait_limit import QueueWaitLimit
from service.engine.client.open_generation import OpenGeneration
from service.engine.client.queue_wait import KeyLoad, QueueWaitEstimator, has_small_load, load_of_peers
from service.engine.interface.config import EngineConfig
from service.engine.interface.in_flight_limit import InFlightLimit
from service.engine.interface.retry import retry_after_s
from service.generation.errors import EngineOverloaded
from service.generation.requests.request import GenerationRequest
from service.generation.stats import EngineStats

_OVERLOAD_S = 2.0  # after the last rejection
_MAX_OVERLOAD_WAIT_S = 0.1  # expected queue wait of an admitted request during an overload,
_MAX_OVERLOAD_SHARE = 0.02  # or this share of the maximal queue wait, if that is longer: steps of slow models are long
_MAX_WAIT_SHARE = 0.5  # of the time until a request's deadline that it may wait in the queue
_MIN_RESERVE = 4  # requests of small keys that may be open during an overload beyond the choices that may run,
_RESERVE_SHARE = 0.125  # or this share of those choices
_MAX_RATE_AGE_S = 5.0  # of the measured speed of prompts that rejects an objective
_LATE_S = 1.0  # during which all requests must arrive late before any is rejected for it


class Admission:
    """Admits the requests of one engine. Used by the event loop only, except for `max_running`. Instants in seconds."""

    def __init__(self, config: EngineConfig) -> None:
        self.queue_wait = QueueWaitEstimator()
        self._config = config
        self._in_flight = InFlightLimiter(config.max_batch_sequences, config.overload_slowdown)
        self._wait_limit = QueueWaitLimit(config.max_queue_wait_s)
        self._growth = QueueGrowth(config.max_batch_sequences)
        self._last = EngineStats()
        self._work = 0.0  # for all requests, in tokens
        self._overloaded_until = -math.inf
        self._prompts_at = -math.inf  # when prompts were computed last, or admitted so that they are measured again
        self._late_since = self._late_at = -math.inf  # arrivals of the first and last of consecutive late requests

    def record_steps(self, now: float, num_open: int, steps: abc.Iterable[EngineStats], last: EngineStats) -> None:
        """Record the engine's state after each of some steps, the `last` with all counters since the start.

        `num_open` is the number of requests that were incomplete before the steps.
        """
        for stats in steps:
            self._wait_limit.record_step(stats)
        before, self._last = self._last, last
        num_prompt_tokens = last.num_prompt_tokens - before.num_prompt_tokens
        if num_prompt_tokens:
            self._prompts_at = now
        self._work += self._work_of(num_prompt_tokens, last.num_generated_tokens - before.num_generated_tokens)
        self._in_flight.record_step(now, num_open, self._work, last.decode_step_s)

    def record_answer(self, num_prompt_tokens: float, num_tokens: float, duration_s: float) -> None:
        """Record a whole answer: the computed tokens of its prompt, those of each choice, and its time."""
        self._in_flight.record_answer(self._work_of(num_prompt_tokens, num_tokens), duration_s)

    def _work_of(self, num_prompt_tokens: float, num_tokens: float) -> float:
        """Return the work in tokens of a lone answer, by the measured times of steps."""
        last = self._last
        weight = last.prompt_token_s / last.decode_step_s if last.decode_step_s else 0.0
        return num_tokens + weight * num_prompt_tokens

    def record_arrivals(self, now: float, num_waiting: int, num_requests: int) -> None:
        """Record admitted requests of one call behind `num_waiting` queued ones."""
        self.queue_wait.record_arrival(now, num_waiting)
        self._growth.record_arrivals(num_requests)

    def is_overloaded(self, now: float) -> bool:
        """Return whether a request was rejected in the last two seconds."""
        return now < self._overloaded_until

    def in_flight_limit(self, now: float) -> InFlightLimit | None:
        """Return the number of requests that may be in flight, or None if no answer was measured yet."""
        return self._in_flight.limit(self._wait_limit.seconds, is_overloaded=self.is_overloaded(now))

    def max_running(self, now: float, max_running: int) -> int:
        """Return the number of choices that may run, at most `max_running`, the number of slots."""
        limit = self.in_flight_limit(now) if self.is_overloaded(now) else None
        return max_running if limit is None else min(max_running, limit.sustained)

    def check_arrival(
        self,
        now: float,
        key: tuple[str, float],
        requests: abc.Iterable[OpenGeneration],
        stats: EngineStats,
        *,
        deadline: float | None = None,
        waited_s: float | None = None,
    ) -> None:
        """Raise EngineOverloaded if another request of `key`, a caller id and its weight, would be queued too long.

        `requests` are open ones, `waited_s` the time that the new one has waited before it reached the service.
        """
        caller_id, weight = key
        loads, ages_s, longest_wait_s = _loads(caller_id, weight, requests, now)
        usual_wait_s = self._wait_limit.seconds
        short_wait_s = min(usual_wait_s, max(_MAX_OVERLOAD_WAIT_S, _MAX_OVERLOAD_SHARE * usual_wait_s))
        overload_wait_s = short_wait_s if self.is_overloaded(now) else usual_wait_s
        max_running = self.max_running(now, stats.max_running or self._config.max_batch_sequences)
        # Many keys with small loads cause an overload together.
        most_of_peers = max_running + max(_MIN_RESERVE, _RESERVE_SHARE * max_running)
        causes_none = has_small_load(caller_id, loads) and load_of_peers(caller_id, loads) < most_of_peers
        max_wait_s = limit_s = usual_wait_s if causes_none else overload_wait_s
        if deadline is not None:
            limit_s = min(limit_s, max(_MAX_WAIT_SHARE * (deadline - now), 0.0))
        wait_s = self.queue_wait.wait_s(caller_id, loads, max_running, ages_s)
        num_waiting = sum(load.num_waiting for load in loads.values())
        num_open = sum(load.num_open for load in loads.values())
        is_standing = self._growth.is_standing(now, num_waiting, num_open, usual_wait_s)
        if wait_s > max_wait_s or (is_standing and max(wait_s, longest_wait_s) > _MAX_OVERLOAD_WAIT_S):
            self._overloaded_until = now + _OVERLOAD_S
        # Clients that bypass Envoy can claim any `waited_s`: their own request may be rejected for it, but it does not
        # start an overload.
        if (
            waited_s is not None
            and self._is_rejected_as_late(now, is_late=waited_s > overload_wait_s)
            and loads[caller_id].num_open
        ):
            wait_s += waited_s
        if wait_s > limit_s:
            message = f"the request would wait for about {wait_s:.1f} s to begin; the limit is {limit_s:.1f} s"
            raise EngineOverloaded(message, retry_after_s(wait_s - limit_s), for_all=wait_s > max_wait_s)

    def check(
        self,
        now: float,
        requests: abc.Sequence[GenerationRequest],
        opened: abc.Sequence[OpenGeneration],
        stats: EngineStats,
    ) -> None:
        """Raise EngineOverloaded unless all requests of one call can be admitted beyond the open ones."""
        first = requests[0]
        key = first.caller_id, first.weight
        self.check_arrival(now, key, opened, stats, deadline=first.deadline)  # the others are admitted with it
        self._check_queue(now, requests, [each for each in opened if each.is_waiting])
        self._check_promises(now, requests, opened, stats)

    def _check_queue(
        self, now: float, requests: abc.Sequence[GenerationRequest], waiting: abc.Sequence[OpenGeneration]
    ) -> None:
        """Raise EngineOverloaded if the queue has no capacity for the key of the requests."""
        if not waiting:
            return  # a request that exceeds the whole queue may still run alone
        key = requests[0].caller_id, requests[0].weight
        by_prompt = [
            QueuedRequest(each.request.caller_id, each.request.weight, len(each.request.prompt_token_ids))
            for each in waiting
        ]
        by_number = QueueShare(self._config.max_queue_requests, (each._replace(size=1) for each in by_prompt), *key)
        by_tokens = QueueShare(self._config.max_queue_tokens, by_prompt, *key)
        if not by_number.has_capacity(len(requests)):
            message = f"{by_number.num_queued} requests wait already"
            for_all = not by_number.has_capacity(1)
        elif not by_tokens.has_capacity(sum(len(request.prompt_token_ids) for request in requests)):
            message = f"requests with {by_tokens.num_queued} prompt tokens wait already"
            for_all = not by_tokens.has_capacity(1)
        else:
            return
        raise EngineOverloaded(message, retry_after_s(now - waiting[0].arrived), for_all=for_all)

    def _check_promises(
        self,
        now: float,
        requests: abc.Sequence[GenerationRequest],
        opened: abc.Collection[OpenGeneration],
        stats: EngineStats,
    ) -> None:
        """Raise EngineOverloaded if the measured rates don't suffice for the service levels of all requests.

        An idle engine admits every request, so that rates which were measured under other conditions are replaced. So
        does one that has not computed any prompt for a while: that one may have been measured in a stall.
        """
        if not opened or not any(any(request.service_level) for request in requests):
            return
        rates = Rates(stats.decode_step_s, stats.decode_row_s, stats.prompt_token_s)
        cached = stats.num_prefix_hit_tokens / stats.num_prefix_query_tokens if stats.num_prefix_query_tokens else 0.0
        promises = [
            _promise(each.request, each.arrived, cached, has_begun=each.has_output)
            for each in opened
            if any(each.request.service_level) and not each.is_complete
        ]
        promises += [_promise(request, now, cached) for request in requests]
        late_s = shortage_s(promises, rates, now)
        if late_s == math.inf:
            retry_s = self.queue_wait.run_s / len(promises)
            message = "the objective per token can't be met now, with those of the requests that run"
            raise EngineOverloaded(message, retry_after_s(retry_s))
        if late_s > 0:
            if now - self._prompts_at > _MAX_RATE_AGE_S:
                self._prompts_at = now
                return
            message = f"the first token would come {late_s:.1f} s after its objective"
            raise EngineOverloaded(message, retry_after_s(late_s))

    def _is_rejected_as_late(self, now: float, *, is_late: bool) -> bool:
        """Record whether a request arrived late. Return True if it should be rejected for that.

        A late request is rejected during an overload, or if all requests of the last second were late.
        """
        if not is_late:
            self._late_at = -math.inf
            return False
        if now - self._late_at > _OVERLOAD_S:
            self._late_since = now
        self._late_at = now
        return self.is_overloaded(now) or now - self._late_since >= _LATE_S


def _promise(request: GenerationRequest, arrived: float, cached: float, *, has_begun: bool = False) -> Promise:
    """Return the promise of a request; `cached` is the part of prompts that is found in the cache on average."""
    level = request.service_level
    return Promise(
        math.inf if level.first_token_s is None or has_begun else arrived + level.first_token_s,
        0.0 if has_begun else (1 - cached) * len(request.prompt_token_ids),
        level.token_s or math.inf,
        request.n,
    )


def _loads(
    caller_id: str, weight: float, requests: abc.Iterable[OpenGeneration], now: float
) -> tuple[dict[str, KeyLoad], list[float], float]:
    """Return each key's load, including `caller_id`, how long each sequence has run, and the longest wait so far."""
    loads = {caller_id: KeyLoad(weight, 0, 0)}
    ages_s: list[float] = []
    longest_wait_s = 0.0
    for each in requests:
        name = each.request.caller_id
        before = loads.get(name, KeyLoad(each.request.weight, 0, 0))
        loads[name] = KeyLoad(
            before.weight, before.num_waiting + each.is_waiting, before.num_running + each.num_running
        )
        ages_s += [now - each.began] * each.num_running
        if each.is_waiting:
            longest_wait_s = max(longest_wait_s, now - each.arrived)
    return loads, ages_s, longest_wait_s

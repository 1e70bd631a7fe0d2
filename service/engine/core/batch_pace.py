"""The pace of steps with requests of batches, which yield to all others.

Batches have no part of a step while another request waits for its first token. While the others only decode, batches
prolong the steps by as much as others may prolong those of small keys. While there are no others, a step is so short
that the 95th percentile of the time to the first token is at most a tenth longer than without batches. If the runner
ends a step of batches as soon as another request arrives, it may be so long that a tenth of the time is lost by that.
"""

from __future__ import annotations

import math
from collections import abc
from operator import attrgetter

from service.engine.core.pace import Pace, StepChoice, add_within, saved_after
from service.engine.core.queue.fair_queue import FairQueue
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import Step
from service.engine.core.step_times import StepTimes
from service.engine.interface.config import EngineConfig

_SHARE = 0.1  # of the 95th percentile of times to the first token, which a step of batches may take
_ASSUMED_FIRST_TOKEN_S = 1.0  # until a first token was measured
_INTERVAL_SHARE = 0.2  # of the interval between arrivals: half of a step, a tenth, is lost at each on average
_MAX_STEP_S = 1.0  # a longer step of batches would not compute more per second
_INTERVAL_CHANGE = 0.1  # weight of the newest interval between arrivals
_MIN_STEPS = 1.5  # a step of batches may take this many times as long as one decode
_QUANTILE = 0.95
_CHANGE = 0.1  # of the estimated percentile by one first token above it
_by_last_step = attrgetter("last_paced_step")


class BatchPace:
    """Chooses the decodes of one engine's steps: by `Pace`, and of batches in the time that this leaves."""

    def __init__(self, times: StepTimes, queue: FairQueue, config: EngineConfig) -> None:
        self._times = times
        self._queue = queue
        self._others = Pace(times, queue, config)
        self._saved_s = 0.0  # time that batches may add to steps of others; below 0, a debt
        self._choice: StepChoice | None = None  # of the step that is computed, if batches yield in it
        self._num_steps = 0
        self._first_token_s = 0.0  # the estimated percentile, of requests that are not of batches
        self._interval_s = math.inf  # between their arrivals, a moving average
        self._last_arrival = -math.inf
        self.ends_steps = False  # whether the runner ends a step of batches as soon as another request arrives

    def choose(self, decodes: list[Sequence], prefills: abc.Collection[Sequence], now: float) -> StepChoice | None:
        """Choose among the running sequences. Return None if no sequence has to yield."""
        self._choice = None
        if not self._queue.has_batches:
            return self._others.choose(decodes, prefills, now)
        if not self._queue.has_others:
            return self._choose_batches(decodes, now)
        others = [each for each in decodes if not each.request.is_batch]
        prompts = [each for each in prefills if not each.request.is_batch]
        choice = self._others.choose(others, prompts, now)
        if choice is not None:  # some of the others yield already
            choice.with_batches = False
            return choice
        batches = sorted((each for each in decodes if each.request.is_batch), key=_by_last_step)
        choice = self._choice = StepChoice(others, batches, lambda each: not each.request.is_batch)
        spare_s = 0.0
        if others and not prompts and not self._queue.others_wait:
            alone_s = self._times.decode_s(len(others)) or 0.0
            spare_s = max(min(self._saved_s, self._limit_s() - alone_s), 0.0)
        add_within(choice, spare_s, self._times)
        return self._numbered(choice)

    def record(self, step: Step, seconds: float) -> None:
        """Record the duration of the step of the last choice: save batches' part of it, and deduct what they used."""
        self._others.record(step, seconds)
        choice, self._choice = self._choice, None
        if choice is not None:
            self._saved_s = saved_after(self._saved_s, choice, step, seconds, self._times)

    def record_arrival(self, now: float) -> None:
        """Record the arrival of a request that is not of a batch."""
        interval_s = max(now - self._last_arrival, 0.0)
        if self._interval_s == math.inf:
            self._interval_s = interval_s
        else:
            self._interval_s += _INTERVAL_CHANGE * (interval_s - self._interval_s)
        self._last_arrival = now

    def record_first_token(self, seconds: float) -> None:
        """Record the time to the first token of a request that is not of a batch."""
        if not self._first_token_s:
            self._first_token_s = seconds
        elif seconds > self._first_token_s:
            self._first_token_s = min(self._first_token_s * (1 + _CHANGE * _QUANTILE), seconds)
        else:
            self._first_token_s = max(self._first_token_s * (1 - _CHANGE * (1 - _QUANTILE)), seconds)

    def _choose_batches(self, decodes: list[Sequence], now: float) -> StepChoice | None:
        """Return a choice for a step of batches alone, or None if no step was measured."""
        if self._times.decode_times == (0.0, 0.0):
            return None
        limit_s = self._limit_s()
        if self.ends_steps:
            interval_s = max(self._interval_s, now - self._last_arrival)
            limit_s = max(limit_s, min(_INTERVAL_SHARE * interval_s, _MAX_STEP_S))
        number = self._times.num_decodes_within(limit_s, 1, len(decodes)) if decodes else 0
        ordered = sorted(decodes, key=_by_last_step)
        choice = StepChoice(ordered[:number], ordered[number:], lambda _: True)
        alone_s = (self._times.decode_s(number) or 0.0) if number else 0.0
        choice.prompts_s, choice.others_s = max(limit_s - alone_s, 0.0), 0.0
        return self._numbered(choice)

    def _limit_s(self) -> float:
        """Return the time that a step of batches may take."""
        first_token_s = self._first_token_s or _ASSUMED_FIRST_TOKEN_S
        return max(_SHARE * first_token_s, _MIN_STEPS * self._times.decode_times[0])

    def _numbered(self, choice: StepChoice) -> StepChoice:
        """Return a choice, after recording that its rows are computed in this step."""
        self._num_steps += 1
        for sequence in choice.rows:
            if sequence.request.is_batch:
                sequence.last_paced_step = self._num_steps
        return choice

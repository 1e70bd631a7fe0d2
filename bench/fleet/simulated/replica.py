"""A simulated replica: an engine that computes steps without tokens.

It makes the decisions of the product's scheduler for runs of equal steps instead of token by token, so that simulating
a request takes about as long as a few tokens there. `tests/bench/test_fleet_replica.py` compares it with the product's
scheduler.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass

from bench.fleet.simulated.cache import PrefixCache
from bench.fleet.simulated.job import NEVER, Job
from bench.fleet.simulated.step_model import StepModel
from service.engine.core.step_times import StepTimes

_MOST_STEPS = 64  # of one run, since contexts grow meanwhile
_MEMORY = 0.95


@dataclass(frozen=True)
class Sizes:
    """The fields of `EngineConfig` with the same names."""

    max_batch_tokens: int = 2048
    max_batch_sequences: int = 64
    max_prefill_chunk: int = 512
    max_slowdown: float = 2.5
    max_queue_wait_s: float = 2.0


class Replica:
    """Accepts jobs; `go_on` must be called whenever the time `until` is reached."""

    def __init__(self, number: int, model: StepModel, sizes: Sizes) -> None:
        self.number = number
        self.until = NEVER  # the end of the steps that run
        self.version = 0  # of `until`
        self.is_up = True
        self.is_draining = False
        self.num_active = 0  # jobs that wait or run
        self.num_jobs = 0
        self.busy_s = 0.0
        self.cache = PrefixCache(model.table.num_blocks * model.table.block_size, model.table.block_size)
        self._model = model
        self._sizes = sizes
        self._times = StepTimes(sizes.max_slowdown)
        self._waiting: deque[Job] = deque()
        self._prefilling: list[Job] = []
        self._decoding: list[tuple[int, int, Job]] = []  # a heap, ordered by the last step
        self._context = 0  # tokens of the decoding jobs
        self._num_steps = 0
        self._serial = 0
        self._run: tuple[float, float, int] = (0.0, 0.0, 0)  # beginning, seconds a step, steps
        self._parts: list[tuple[Job, int]] = []  # prompt tokens in the current step
        self._stay_s = 0.0

    @property
    def num_running(self) -> int:
        """Jobs that have begun."""
        return len(self._prefilling) + len(self._decoding)

    @property
    def num_waiting(self) -> int:
        """Jobs that have not begun."""
        return len(self._waiting)

    @property
    def queue_wait_s(self) -> float:
        """The estimated wait for a slot of one more job, by the mean time that jobs hold a slot."""
        slots = self._sizes.max_batch_sequences
        if not self._waiting and self.num_running < slots:
            return 0.0
        return (len(self._waiting) + 1) / slots * self._stay_s

    def add(self, job: Job, now: float) -> bool:
        """Enqueue a job, or reject it and return False if its wait would be too long."""
        self.num_jobs += 1
        if self.queue_wait_s > self._sizes.max_queue_wait_s:
            job.refused = True
            return False
        job.replica = self.number
        self.num_active += 1
        self._waiting.append(job)
        if self.until == NEVER:
            self._begin(now)
        elif not self._parts:
            self._cut_short(now)
        return True

    def go_on(self, now: float) -> list[Job]:
        """End the current steps and begin the next; return the jobs that ended."""
        done = self._end(now)
        self.num_active -= len(done)
        self._begin(now)
        return done

    def die(self, now: float) -> list[Job]:
        """Lose all state; return the jobs that were there, with their progress."""
        lost = [*self._waiting, *self._prefilling, *(job for _, _, job in self._decoding)]
        if self.until < NEVER:
            began, step_s, _ = self._run
            self._num_steps += int((now - began) / step_s)
            self.busy_s += now - began
        for last_step, _, job in self._decoding:
            job.generated = job.answer - (last_step - self._num_steps)
        fresh = Replica(self.number, self._model, self._sizes)
        self.cache, self._times = fresh.cache, fresh._times
        self._waiting, self._prefilling, self._decoding = deque(), [], []
        self._context, self._parts, self.num_active = 0, [], 0
        self.until = NEVER
        self.version += 1
        return lost

    def _begin(self, now: float) -> None:
        """Choose the next step, or the run of steps until something changes."""
        self.version += 1
        num_decodes = len(self._decoding)
        self._preempt(num_decodes)
        num_decodes = len(self._decoding)
        self._parts = self._share_out(num_decodes, now)
        num_tokens = sum(tokens for _, tokens in self._parts)
        if not num_tokens and not num_decodes:
            self.until = NEVER
            return
        num_steps = 1
        if not num_tokens and not self._prefilling:
            num_steps = min(self._decoding[0][0] - self._num_steps, _MOST_STEPS, self._steps_that_fit(num_decodes))
        context = self._context + num_decodes * num_steps / 2
        step_s = self._model.seconds(num_decodes, num_tokens, context)
        self._run = (now, step_s, num_steps)
        self.until = now + step_s * num_steps

    def _share_out(self, num_decodes: int, now: float) -> list[tuple[Job, int]]:
        """Assign the next step's tokens to prompts; begin waiting jobs while there is capacity."""
        sizes = self._sizes
        left = sizes.max_batch_tokens - num_decodes
        if num_decodes:
            left = min(left, sizes.max_prefill_chunk)
            if self._prefilling or self._waiting:
                left = self._times.prefill_budget(num_decodes, left)
        parts = []
        for job in self._prefilling:
            tokens = min(left, job.to_compute)
            if tokens:
                parts.append((job, tokens))
                left -= tokens
        while left > 0 and self._waiting and self.num_running < sizes.max_batch_sequences:
            job = self._waiting[0]
            if not self.cache.fits(job, self.num_running) and self.num_running:
                break
            self._waiting.popleft()
            found = self.cache.found(job)
            self.cache.hold(job)
            if job.began == NEVER:
                job.began, job.cached = now, found
            job.to_compute = max(job.prompt + job.generated - found, 1)
            self._prefilling.append(job)
            tokens = min(left, job.to_compute)
            parts.append((job, tokens))
            left -= tokens
        return parts

    def _end(self, now: float) -> list[Job]:
        _, step_s, num_steps = self._run
        num_decodes = len(self._decoding)
        num_tokens = sum(tokens for _, tokens in self._parts)
        for _ in range(num_steps):
            self._times.record(num_decodes, num_tokens, step_s)
        self.busy_s += num_steps * step_s
        self._num_steps += num_steps
        self._context += num_decodes * num_steps
        self.cache.grow(num_decodes * num_steps)
        done = []
        while self._decoding and self._decoding[0][0] <= self._num_steps:
            job = heapq.heappop(self._decoding)[2]
            job.held = job.own + job.answer
            self._context -= job.prompt + job.answer
            done.append(job)
        for job, tokens in self._parts:
            job.to_compute -= tokens
            if not job.to_compute:
                self._prefilling.remove(job)
                if self._decode(job, now):
                    done.append(job)
        self._parts = []
        for job in done:
            job.ended = now
            self.cache.release(job)
            self._stay_s = (
                _MEMORY * self._stay_s + (1 - _MEMORY) * (now - job.began) if self._stay_s else now - job.began
            )
        return done

    def _decode(self, job: Job, now: float) -> bool:
        """Generate the next token of a job whose prompt is computed; return True if it is the last one."""
        self.cache.record_prompt(job)
        job.first_token = min(job.first_token, now)
        job.generated += 1
        self.cache.grow(1)
        job.held += 1
        if job.generated >= job.answer:
            return True
        self._serial += 1
        heapq.heappush(self._decoding, (self._num_steps + job.answer - job.generated, self._serial, job))
        self._context += job.prompt + job.generated
        return False

    def _cut_short(self, now: float) -> None:
        """End a run of decodes with the current step, since a job has arrived."""
        began, step_s, num_steps = self._run
        num_begun = min(max(math.ceil((now - began) / step_s), 1), num_steps)
        self._run = (began, step_s, num_begun)
        self.until = began + step_s * num_begun
        self.version += 1

    def _steps_that_fit(self, num_decodes: int) -> int:
        return max((self.cache.capacity - self.cache.held) // num_decodes, 1)

    def _preempt(self, num_decodes: int) -> None:
        """Preempt the jobs that began last until the next token of each remaining job fits."""
        while num_decodes > 1 and self.cache.held + num_decodes > self.cache.capacity:
            index = max(range(num_decodes), key=lambda each: self._decoding[each][1])
            last_step, _, job = self._decoding.pop(index)
            heapq.heapify(self._decoding)
            num_decodes -= 1
            job.generated = job.answer - (last_step - self._num_steps)
            job.held = job.own + job.generated
            self._context -= job.prompt + job.generated
            self.cache.release(job)
            self._waiting.appendleft(job)

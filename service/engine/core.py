"""The engine's step: schedule, run, accept, finish.

Owns the order of one step and the counts of all. Single-threaded and free of asyncio: whoever calls it is the engine's
thread. Knows the model only as a `Runner`, and readers not at all: outputs leave it as a `StepReport`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Rows
from dataclasses import dataclass, field
from typing import Protocol

from service.engine.scheduler import ScheduledSequence, Scheduler, Step
from service.engine.sequence import Sequence, SequenceGroup
from service.generation.errors import DeadlineExceeded, EngineError, SequenceError
from service.generation.output import GenerationOutput, TokenLogprob
from service.generation.stats import EngineStats


@dataclass(frozen=True, slots=True)
class SampledToken:
    """What a step yields for one sequence. The logprobs are present if the request asks for them."""

    token_id: int
    logprob: TokenLogprob | None = None
    prompt_logprobs: Rows[TokenLogprob] = ()  # with a sequence's first token, if it `needs_prompt_logprobs`


class Runner(Protocol):
    """The computing half of the engine. Only the engine's thread calls it."""

    def run(self, step: Step) -> Rows[SampledToken | SequenceError | None]:
        """Compute the step; one result for each of `step.items`, in their order, None where it does not sample.

        A SequenceError in a token's place ends that sequence's request. Anything raised ends the engine.
        """

    def release(self, sequence: Sequence) -> None:
        """Forget what is kept for a sequence: it has ended, or it was preempted and will be computed again."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """What a step brought, for the readers."""

    started: list[SequenceGroup] = field(default_factory=list)  # groups that ran for the first time
    outputs: list[tuple[SequenceGroup, GenerationOutput]] = field(default_factory=list)
    errors: list[tuple[SequenceGroup, EngineError]] = field(default_factory=list)  # each ends its group


class EngineCore:
    """Takes requests and aborts between steps, and computes one step at a time."""

    def __init__(self, scheduler: Scheduler, runner: Runner, clock: Callable[[], float] = time.monotonic) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._clock = clock
        self._num_steps = 0
        self._num_computed_tokens = 0
        self._num_generated_tokens = 0
        self._step_tokens = 0
        self._step_sequences = 0
        self._step_time_s = 0.0

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self._scheduler.has_work

    def add(self, group: SequenceGroup) -> None:
        """Let a request wait for its first step."""
        self._scheduler.add(group)

    def abort(self, group: SequenceGroup) -> None:
        """End a request without a word; its blocks are free at once. Does nothing if it has ended."""
        group.ended = True
        for sequence in self._scheduler.drop(group):
            self._runner.release(sequence)

    def step(self) -> StepReport:
        """Compute one step. Whatever the runner raises passes through, and leaves the core unusable."""
        report = StepReport()
        began = self._clock()
        for group in self._scheduler.expired(began):
            if group.request.truncates_at_deadline:
                unfinished = [sequence for sequence in group.sequences if sequence.finish_reason is None]
                report.outputs.extend((group, sequence.cut_off(began)) for sequence in unfinished)
            else:
                report.errors.append((group, DeadlineExceeded("the deadline passed before the answer was complete")))
            self.abort(group)
        step = self._scheduler.schedule(began)
        if step is None:
            return report
        for sequence in step.preempted:
            self._runner.release(sequence)
        report.started.extend(step.started)
        results = self._runner.run(step)
        now = self._clock()
        for item, result in zip(step.items, results, strict=True):
            if not item.sequence.group.ended:  # by another choice of its request, in this very step
                self._scheduler.advance(item)
                self._accept(item, result, now, len(step.items), report)
        self._num_steps += 1
        self._step_tokens = step.num_tokens
        self._step_sequences = len(step.items)
        self._num_computed_tokens += step.num_tokens
        self._step_time_s = now - began
        self._scheduler.record_step_time(step, self._step_time_s)
        return report

    def stats(self) -> EngineStats:
        """A snapshot of the state after the last step."""
        scheduler = self._scheduler
        return EngineStats(
            num_waiting=scheduler.num_waiting,
            num_running=scheduler.num_running,
            num_blocks=scheduler.pool.num_blocks,
            num_free_blocks=scheduler.pool.num_free_blocks,
            num_cached_blocks=scheduler.pool.num_cached_blocks,
            step_time_s=self._step_time_s,
            step_tokens=self._step_tokens,
            step_sequences=self._step_sequences,
            num_steps=self._num_steps,
            num_preemptions=scheduler.num_preemptions,
            num_computed_tokens=self._num_computed_tokens,
            num_generated_tokens=self._num_generated_tokens,
            num_prefix_query_tokens=scheduler.num_prefix_query_tokens,
            num_prefix_hit_tokens=scheduler.num_prefix_hit_tokens,
        )

    def check(self) -> None:
        """Raise RuntimeError if a block is lost or owned twice."""
        self._scheduler.check()

    def _accept(
        self,
        item: ScheduledSequence,
        result: SampledToken | SequenceError | None,
        now: float,
        batch_size: int,
        report: StepReport,
    ) -> None:
        sequence = item.sequence
        if (result is not None) != item.samples:
            raise RuntimeError("the runner's results do not fit the step")
        if result is None:
            return
        try:
            if isinstance(result, SequenceError):
                raise result
            output = sequence.accept(
                result.token_id, result.logprob, now, result.prompt_logprobs, batch_size=batch_size
            )
        except SequenceError as error:
            self.abort(sequence.group)
            report.errors.append((sequence.group, error))
            return
        self._num_generated_tokens += 1
        report.outputs.append((sequence.group, output))
        if sequence.finish_reason is not None:
            self._scheduler.finish(sequence)
            self._runner.release(sequence)

"""The engine's step: schedule, run, accept, finish.

Single-threaded: whoever calls it is the engine's thread. The model is a `Runner`; outputs leave as a `Report`.
"""

from __future__ import annotations

import time
from collections import abc
from typing import NamedTuple, Protocol

from service.engine.mail import Report
from service.engine.retry import retry_after_s
from service.engine.scheduler import Scheduler
from service.engine.sequence import Sequence, SequenceGroup
from service.engine.step import ScheduledSequence, Step
from service.generation.errors import DeadlineExceeded, EngineOverloaded, SequenceError
from service.generation.output import GenerationOutput, TokenLogprob
from service.generation.stats import EngineStats


class SampledToken(NamedTuple):
    """What a step yields for one sequence. The logprobs are present if the request asks for them."""

    token_id: int
    logprob: TokenLogprob | None = None
    prompt_logprobs: abc.Sequence[TokenLogprob] = ()  # with a sequence's first token, if it `needs_prompt_logprobs`


class Runner(Protocol):
    """The computing half of the engine. Only the engine's thread calls it."""

    @property
    def num_replays(self) -> int:
        """Steps that a device replayed from a recording."""

    def run(self, step: Step) -> abc.Sequence[SampledToken | SequenceError | None]:
        """Compute the step; one result for each of `step.items`, in their order, None where it does not sample.

        A SequenceError in a token's place ends that sequence's request. Anything raised ends the engine.
        """

    def follow(self, sequences: abc.Sequence[Sequence]) -> abc.Sequence[SampledToken | SequenceError]:
        """Sample once more from the same step, for sequences whose last token was the next one of their drafts."""

    def release(self, sequence: Sequence) -> None:
        """Forget what is kept for a sequence: it has ended, or it was preempted and will be computed again."""


class EngineCore:
    """Takes requests and aborts between steps, and computes one step at a time."""

    def __init__(self, scheduler: Scheduler, runner: Runner, clock: abc.Callable[[], float] = time.monotonic) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._clock = clock
        self._groups: dict[int, SequenceGroup] = {}  # those that have not ended, by their serials
        self._num_steps = 0
        self._num_computed_tokens = 0
        self._num_generated_tokens = 0
        self._num_draft_tokens = 0
        self._num_accepted_draft_tokens = 0
        self._step_tokens = 0
        self._step_sequences = 0
        self._step_time_s = 0.0
        self._busy_s = 0.0

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self._scheduler.has_work

    def add(self, group: SequenceGroup) -> None:
        """Let a request wait for its first step."""
        self._groups[group.serial] = group
        self._scheduler.add(group)

    def abort(self, serial: int) -> None:
        """End a request without a word; its blocks are free at once. Does nothing if it has ended."""
        if (group := self._groups.pop(serial, None)) is None:
            return
        group.ended = True
        for sequence in self._scheduler.drop(group):
            self._runner.release(sequence)

    def step(self) -> Report:
        """Compute one step. Whatever the runner raises passes through, and leaves the core unusable."""
        report = Report()
        began = self._clock()
        for group in self._scheduler.expired(began):
            if group.request.truncates_at_deadline:
                unfinished = [sequence for sequence in group.sequences if sequence.finish_reason is None]
                cut_off = (sequence.cut(sequence.cut_off(began)) for sequence in unfinished)
                report.outputs.extend((group.serial, output) for output in cut_off if output is not None)
            else:
                error = DeadlineExceeded("the deadline passed before the answer was complete")
                report.errors.append((group.serial, error))
            self.abort(group.serial)
        for group in self._scheduler.overdue(began):
            message = f"the request waited for {began - group.arrived:.1f} s and could not begin"
            report.errors.append((group.serial, EngineOverloaded(message, retry_after_s(began - group.arrived))))
            self.abort(group.serial)
        self._compute(report, began)
        report.stats.append(self.stats())
        return report

    def _compute(self, report: Report, began: float) -> None:
        step = self._scheduler.schedule(began)
        if step is None:
            return
        for sequence in step.preempted:
            self._runner.release(sequence)
            sequence.lose_blocks()
        num_blocks = [len(item.sequence.block_table) for item in step.items]  # those that end hold none afterwards
        report.started.extend(group.serial for group in step.started)
        results = self._runner.run(step)
        now = self._clock()
        for item, result in zip(step.items, results, strict=True):
            if (result is not None) != item.samples:
                raise RuntimeError("the runner's results do not fit the step")
            if not item.sequence.group.ended:  # by another choice of its request, in this very step
                self._scheduler.advance(item.sequence, item.num_new_tokens)
                if result is not None:
                    self._accept(item.sequence, result, now, len(step.items), report)
        self._follow_drafts([item for item in step.items if item.draft], now, len(step.items), report)
        self._num_steps += 1
        self._step_tokens = step.num_tokens
        self._step_sequences = len(step.items)
        self._num_computed_tokens += step.num_tokens
        self._num_draft_tokens += step.num_drafts
        self._step_time_s = self._clock() - began
        self._busy_s += self._step_time_s
        self._bill(step, num_blocks, began, report)
        self._scheduler.record_step_time(step, self._step_time_s)

    def _bill(self, step: Step, num_blocks: list[int], began: float, report: Report) -> None:
        """Share the step's time out by tokens, drafts included. What ended in it is told its whole cost."""
        each_s = self._step_time_s / step.num_tokens
        ended = began + self._step_time_s
        finished: dict[tuple[int, int], Sequence] = {}
        for item, num in zip(step.items, num_blocks, strict=True):
            sequence = item.sequence
            sequence.bill((item.num_new_tokens + len(item.draft)) * each_s, num, began, ended)
            if sequence.finish_reason is not None:
                finished[sequence.group.serial, sequence.choice_index] = sequence
        if finished:
            report.outputs = [
                (serial, _billed(output, finished.get((serial, output.choice_index))))
                for serial, output in report.outputs
                if isinstance(output, GenerationOutput)
            ]

    def _follow_drafts(self, items: list[ScheduledSequence], now: float, batch_size: int, report: Report) -> None:
        """Sample on from each item's drafts for as long as they are what was sampled."""
        num_right = 0
        while items:
            right = []
            for item in items:
                if _is_right(item, num_right):
                    right.append(item)
                else:
                    self._scheduler.record_draft(item, num_right)
                    self._num_accepted_draft_tokens += num_right
            if right:
                results = self._runner.follow([item.sequence for item in right])
                for item, result in zip(right, results, strict=True):
                    if not item.sequence.group.ended:
                        self._scheduler.advance(item.sequence, 1)
                        self._accept(item.sequence, result, now, batch_size, report)
            items = right
            num_right += 1

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
            busy_s=self._busy_s,
            step_tokens=self._step_tokens,
            step_sequences=self._step_sequences,
            num_steps=self._num_steps,
            num_preemptions=scheduler.num_preemptions,
            num_computed_tokens=self._num_computed_tokens,
            num_generated_tokens=self._num_generated_tokens,
            num_draft_tokens=self._num_draft_tokens,
            num_accepted_draft_tokens=self._num_accepted_draft_tokens,
            num_prefix_query_tokens=scheduler.num_prefix_query_tokens,
            num_prefix_hit_tokens=scheduler.num_prefix_hit_tokens,
            max_running=scheduler.max_running,
            num_replays=self._runner.num_replays,
        )

    def check(self) -> None:
        """Raise RuntimeError if a block is lost or owned twice."""
        self._scheduler.check()

    def _accept(
        self,
        sequence: Sequence,
        result: SampledToken | SequenceError,
        now: float,
        batch_size: int,
        report: Report,
    ) -> None:
        try:
            if isinstance(result, SequenceError):
                raise result
            output = sequence.accept(
                result.token_id, result.logprob, now, result.prompt_logprobs, batch_size=batch_size
            )
        except SequenceError as error:
            self.abort(sequence.group.serial)
            report.errors.append((sequence.group.serial, error))
            return
        self._num_generated_tokens += 1
        if (told := sequence.cut(output)) is not None:
            report.outputs.append((sequence.group.serial, told))
        if sequence.finish_reason is not None:
            self._scheduler.finish(sequence)
            self._runner.release(sequence)
            if sequence.group.is_finished:
                del self._groups[sequence.group.serial]


def _billed(output: GenerationOutput, sequence: Sequence | None) -> GenerationOutput:
    """The output with what its choice has cost, if it is the choice's last one."""
    if sequence is None or output.finish_reason is None:
        return output
    timings = output.timings._replace(compute_s=sequence.compute_s, block_s=sequence.block_s)
    return output._replace(timings=timings)


def _is_right(item: ScheduledSequence, index: int) -> bool:
    """Whether the draft of that index is the item's last token, with which its answer has not ended."""
    sequence = item.sequence
    if index == len(item.draft) or sequence.group.ended or sequence.finish_reason is not None:
        return False
    return sequence.token_ids[-1] == item.draft[index]

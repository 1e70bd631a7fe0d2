"""The engine's step: schedule, run, accept, finish.

Only the engine's thread calls this module. A `Runner` computes the model. Sampled tokens are kept until `report` is
called, and are then decoded to text, many at a time.
"""

from __future__ import annotations

import time
from collections import abc
from typing import NamedTuple, Protocol, runtime_checkable

from service.engine.core.batch import Int32s
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.core.step import ScheduledSequence, Step
from service.engine.interface.messages import BeforeStep, Report
from service.generation.errors import DeadlineExceeded, EngineError, SequenceError
from service.generation.outputs.output import TokenLogprob
from service.generation.stats import EngineStats


class SampledToken(NamedTuple):
    """The token that a step sampled for one sequence. The logprobs are present if the request asks for them."""

    token_id: int
    logprob: TokenLogprob | None = None
    prompt_logprobs: abc.Sequence[TokenLogprob] = ()  # with a sequence's first token, if it `needs_prompt_logprobs`


class Runner(Protocol):
    """The model and sampler of an engine core. Only the engine's thread calls it."""

    @property
    def num_replays(self) -> int:
        """The number of steps that the device replayed from a recording, such as a CUDA graph."""

    def run(self, step: Step) -> abc.Sequence[SampledToken | SequenceError | None] | None:
        """Compute the step. Return one result for each of `step.items`, in order, None if an item does not sample.

        Return None for a step that has ended early. A SequenceError as a result ends that sequence's request. An
        exception ends the engine.
        """

    def follow(self, sequences: abc.Sequence[Sequence]) -> abc.Sequence[SampledToken | SequenceError]:
        """Sample again from the same step, for sequences whose last token matched the next token of their draft."""

    def release(self, sequence: Sequence) -> None:
        """Drop the state of a sequence that has ended, or was preempted and will be computed again."""


@runtime_checkable
class EndsSteps(Protocol):
    """A runner that can end a step of batches early."""

    def watch_arrivals(self, arrivals: Int32s) -> bool:
        """End steps of batches early while `arrivals[0]` is larger than `arrivals[1]`. Return False if it can't."""


class EngineCore:
    """Accepts requests and aborts between steps, and computes one step at a time."""

    def __init__(self, scheduler: Scheduler, runner: Runner, clock: abc.Callable[[], float] = time.monotonic) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._clock = clock
        self._groups: dict[int, SequenceGroup] = {}  # unfinished groups, by serial
        self._report = Report()  # not emitted yet
        self._pending_output: dict[Sequence, None] = {}  # sequences with unreported tokens
        self._urgent: dict[Sequence, None] = {}  # sequences whose tokens must be reported immediately
        self._is_urgent = False
        self._num_steps = 0
        self._num_computed_tokens = 0
        self._num_generated_tokens = 0
        self._num_draft_tokens = self._num_accepted_draft_tokens = 0
        self._step_tokens = self._step_sequences = 0
        self._step_time_s = 0.0
        self._busy_s = 0.0

    @property
    def has_work(self) -> bool:
        """True if any request is unfinished."""
        return self._scheduler.has_work

    def watch_arrivals(self, arrivals: Int32s) -> None:
        """End steps of batches early while `arrivals[0]` is larger than `arrivals[1]`, if the runner can."""
        if isinstance(self._runner, EndsSteps) and self._runner.watch_arrivals(arrivals):
            self._scheduler.end_steps_early()

    def add(self, group: SequenceGroup) -> None:
        """Enqueue a request."""
        self._groups[group.serial] = group
        self._scheduler.add(group)

    def abort(self, serial: int) -> None:
        """End a request without a report, and free its blocks immediately. Do nothing if it has ended."""
        if (group := self._groups.pop(serial, None)) is None:
            return
        group.ended = True
        for sequence in group.sequences:
            self._pending_output.pop(sequence, None)
        for sequence in self._scheduler.drop(group):
            self._runner.release(sequence)

    def step(self, before: BeforeStep | None = None) -> bool:
        """Run one step. Return True if its output should be flushed immediately: a start, a first token or an end.

        `before` is called before a step that computes prompt tokens, with the expected duration in seconds. An
        exception of the runner is raised, and leaves the core unusable.
        """
        self._is_urgent = False
        began = self._clock()
        for group in self._scheduler.expired(began):
            if group.request.truncates_at_deadline:
                self._cut_off(group, began)
            else:
                self._fail(group, DeadlineExceeded("the deadline passed before the answer was complete"))
        self._compute(began, before)
        self._report.stats.append(self.stats())
        return self._is_urgent

    def report(self, *, only_urgent: bool = False) -> Report:
        """Return the output since the last report, with the engine's state after each step since then.

        With `only_urgent`, return only the tokens of sequences that have just started or ended.
        """
        report, self._report = self._report, Report()
        urgent, self._urgent = self._urgent, {}
        if only_urgent:
            reported = [sequence for sequence in urgent if sequence in self._pending_output]
            for sequence in reported:
                del self._pending_output[sequence]
        else:
            reported, self._pending_output = list(self._pending_output), {}
        for sequence in reported:
            report.outputs += [(sequence.group.serial, output) for output in sequence.take_outputs()]
        if not report.stats:
            report.stats.append(self.stats())
        return report

    def _cut_off(self, group: SequenceGroup, now: float) -> None:
        """End a request with what it has generated so far."""
        for sequence in group.sequences:
            if sequence.finish_reason is None:
                sequence.cut_off(now)
                self._pending_output[sequence] = None
        self._end(group)

    def _fail(self, group: SequenceGroup, error: EngineError) -> None:
        """End a request with an error, after its pending output."""
        self._report.errors.append((group.serial, error))
        self._end(group)

    def _end(self, group: SequenceGroup) -> None:
        """Report the pending outputs of a group's sequences, and release the group."""
        self._is_urgent = True
        pending = [sequence for sequence in group.sequences if sequence in self._pending_output]
        for sequence in pending:
            self._report.outputs += [(group.serial, output) for output in sequence.take_outputs()]
        self.abort(group.serial)

    def _compute(self, began: float, before: BeforeStep | None) -> None:
        step = self._scheduler.schedule(began)
        if step is None:
            return
        if before is not None and step.num_prompt_tokens:
            before(self._scheduler.expected_s(step))
        for sequence in step.preempted:
            self._runner.release(sequence)
            sequence.cost.lose_blocks()
        num_blocks = [item.sequence.num_blocks for item in step.items]  # before finished sequences release theirs
        if step.started:
            self._is_urgent = True
            self._report.started.extend(group.serial for group in step.started)
        results = self._runner.run(step)
        now = self._clock()
        if results is None:  # it is repeated after the step of the request that has arrived
            self._busy_s += now - began
            return
        self._accept_all(step, results, now)
        self._num_steps += 1
        self._step_tokens = step.num_tokens
        self._step_sequences = len(step.items)
        self._num_computed_tokens += step.num_tokens
        self._num_draft_tokens += step.num_drafts
        self._step_time_s = self._clock() - began
        self._busy_s += self._step_time_s
        self._bill(step, num_blocks, began)
        self._scheduler.record_step_time(step, self._step_time_s)

    def _accept_all(self, step: Step, results: abc.Sequence[SampledToken | SequenceError | None], now: float) -> None:
        """Advance the sequences of a step, and accept what it sampled."""
        num_sequences = len(step.items)
        for (sequence, num_new_tokens, samples, _), result in zip(step.items, results, strict=True):
            if (result is not None) != samples:
                raise RuntimeError("the runner's results do not match the step")
            if not sequence.group.ended:  # another choice of the request may have failed in this step
                self._scheduler.advance(sequence, num_new_tokens)
                if sequence.progress_due is not None and (progress := sequence.take_progress(now)) is not None:
                    self._report.outputs.append((sequence.group.serial, progress))
                if result is not None:
                    self._accept(sequence, result, now, num_sequences)
        if step.num_drafts:
            self._follow_drafts([item for item in step.items if item.draft], now, num_sequences)

    def _bill(self, step: Step, num_blocks: list[int], began: float) -> None:
        """Divide the step's time among its sequences by tokens, drafts included."""
        each_s = self._step_time_s / step.num_tokens
        ended = began + self._step_time_s
        for (sequence, num_new_tokens, _, draft), num in zip(step.items, num_blocks, strict=True):
            sequence.cost.add_step((num_new_tokens + len(draft)) * each_s, num, began, ended)

    def _follow_drafts(self, items: list[ScheduledSequence], now: float, batch_size: int) -> None:
        """Continue to sample from each item's drafts as long as they equal the sampled tokens."""
        num_accepted = 0
        while items:
            accepted = []
            for item in items:
                if _is_accepted(item, num_accepted):
                    accepted.append(item)
                else:
                    self._scheduler.record_draft(item, num_accepted)
                    self._num_accepted_draft_tokens += num_accepted
            if accepted:
                results = self._runner.follow([item.sequence for item in accepted])
                for item, result in zip(accepted, results, strict=True):
                    if not item.sequence.group.ended:
                        self._scheduler.advance(item.sequence, 1)
                        self._accept(item.sequence, result, now, batch_size)
            items = accepted
            num_accepted += 1

    def stats(self) -> EngineStats:
        """Return a snapshot of the state after the last step."""
        scheduler = self._scheduler
        memory = scheduler.memory
        decode_step_s, decode_row_s = scheduler.step_times.decode_times
        return EngineStats(
            num_waiting=scheduler.num_waiting,
            num_running=scheduler.num_running,
            num_blocks=memory.pool.num_blocks,
            num_free_blocks=memory.pool.num_free_blocks,
            num_cached_blocks=memory.pool.num_cached_blocks,
            num_adopted_blocks=memory.num_adopted_blocks,
            num_states=memory.num_states,
            num_cached_states=memory.num_cached_states,
            state_bytes=memory.state_bytes,
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
            num_prefix_query_tokens=memory.num_prefix_query_tokens,
            num_prefix_hit_tokens=memory.num_prefix_hit_tokens,
            max_running=scheduler.max_running,
            decode_step_s=decode_step_s,
            decode_row_s=decode_row_s,
            prompt_token_s=scheduler.step_times.prompt_token_s,
            num_replays=self._runner.num_replays,
        )

    def check(self) -> None:
        """Raise RuntimeError if a block is lost or owned twice."""
        self._scheduler.check()

    def _accept(self, sequence: Sequence, result: SampledToken | SequenceError, now: float, batch_size: int) -> None:
        """Append a sampled token to its sequence, or end the request with an error."""
        is_first = sequence.first_token is None
        try:
            if isinstance(result, SequenceError):
                raise result
            token_id, logprob, prompt_logprobs = result
            sequence.take(token_id, now, logprob=logprob, prompt_logprobs=prompt_logprobs, batch_size=batch_size)
        except SequenceError as error:
            self._fail(sequence.group, error)
            return
        self._num_generated_tokens += 1
        self._pending_output[sequence] = None
        if is_first or sequence.finish_reason is not None:
            self._urgent[sequence] = None
            self._is_urgent = True
        if sequence.finish_reason is not None:
            self._scheduler.finish(sequence)
            self._runner.release(sequence)
            if sequence.group.is_finished:
                del self._groups[sequence.group.serial]


def _is_accepted(item: ScheduledSequence, index: int) -> bool:
    """Return whether the item's draft at `index` equals its newest token, and its answer has not ended."""
    sequence = item.sequence
    if index == len(item.draft) or sequence.group.ended or sequence.finish_reason is not None:
        return False
    return sequence.token_ids[-1] == item.draft[index]

"""The runner of a generating model: it computes a step and returns the sampled tokens."""

from __future__ import annotations

from collections import abc
from typing import Generic, TypeVar

from service.engine.core.batch import Batch, Int32s, make_batch, num_output_rows
from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import ScheduledSequence, Step
from service.engine.models.interface.backend import Backend, EndsSteps, KeepsSequenceState, RecordsDecodes, Sampler
from service.generation.errors import SequenceError
from service.generation.outputs.output import TokenLogprob

Logits = TypeVar("Logits")


class ModelRunner(Generic[Logits]):
    """A Runner with a backend, whose cache it allocates, and a sampler that takes the backend's logits."""

    def __init__(
        self,
        backend: Backend[Logits],
        sampler: Sampler[Logits],
        num_blocks: int,
        block_size: int,
        *,
        num_states: int = 0,
        num_threads: int | None = None,
        adapter_slots: abc.Mapping[str, int] | None = None,
    ) -> None:
        """`num_states` is the number of slots for states of sequences, if the backend keeps states.

        If `num_threads` is None, the backend's library chooses. `adapter_slots` maps adapter names to slots.
        """
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.backend = backend
        self.sampler = sampler
        self._logits: Logits | None = None  # of the last step that had drafts
        self._next_rows: dict[Sequence, int] = {}  # in those logits, the row after the one that was sampled from
        self._prompt_logprobs: dict[Sequence, list[TokenLogprob]] = {}  # of prompts that are partly computed
        self._stateful = backend if isinstance(backend, KeepsSequenceState) else None
        self._slots: dict[Sequence, int] = {}  # of sequences whose state the backend keeps
        self._num_threads = num_threads
        self._adapter_slots = adapter_slots
        self._arrivals: Int32s | None = None  # for which steps of batches end early
        self._thread_is_ready = False
        if self._stateful is not None:
            self._stateful.allocate_states(num_states)
        backend.allocate(num_blocks, block_size)
        self._recording = backend if isinstance(backend, RecordsDecodes) else None
        if self._recording is not None:
            self._recording.record_decodes()

    @property
    def num_replays(self) -> int:
        """The number of steps that were replayed from a recorded device graph."""
        return 0 if self._recording is None else self._recording.num_replays

    def watch_arrivals(self, arrivals: Int32s) -> bool:
        """End steps of batches early while `arrivals[0]` is larger than `arrivals[1]`. Return False if it can't."""
        if not isinstance(self.backend, EndsSteps) or not self.backend.ends_steps:
            return False
        self._arrivals = arrivals
        return True

    def run(self, step: Step) -> abc.Sequence[SampledToken | SequenceError | None] | None:
        """Compute the step. Return one result for each of `step.items`, in order, None if an item does not sample.

        Return None for a step that has ended early.
        """
        self._prepare_thread()
        self._logits, self._next_rows = None, {}
        logits = self._forward(step)
        if logits is None:
            return None
        rows = None
        if step.num_drafts or any(item.sequence.needs_prompt_logprobs for item in step.items):
            rows = self._take_prompt_logprobs(logits, step.items)
        sampling = [item.sequence for item in step.items if item.samples]
        if step.num_drafts and rows is not None:
            self._logits = logits
            self._next_rows = {sequence: row + 1 for sequence, row in zip(sampling, rows, strict=True)}
        sampled = self.sampler.sample(logits, sampling, rows) if sampling else []
        if len(sampled) == len(step.items) and not self._prompt_logprobs:
            return sampled
        tokens = iter(sampled)
        return [
            self._with_prompt_logprobs(item.sequence, next(tokens)) if item.samples else None for item in step.items
        ]

    def _prepare_thread(self) -> None:
        """Configure the engine's thread, which calls this before the first step."""
        if not self._thread_is_ready:
            self.backend.prepare_thread(self._num_threads)
            self._thread_is_ready = True

    def _forward(self, step: Step) -> Logits | None:
        """Return the logits of a step, or None if it has ended early."""
        batch = self._batch(step)
        if self._arrivals is None or not step.may_end_early:
            return self.backend.forward(batch)
        assert isinstance(self.backend, EndsSteps)  # noqa: S101  `watch_arrivals` has checked it
        logits: Logits | None = self.backend.forward_until(batch, self._arrivals)
        return logits

    def follow(self, sequences: abc.Sequence[Sequence]) -> abc.Sequence[SampledToken | SequenceError]:
        """Sample again from the same step, for sequences whose last token matched the next token of their draft."""
        assert self._logits is not None  # noqa: S101  only steps with drafts are followed
        rows = [self._next_rows[sequence] for sequence in sequences]
        self._next_rows.update((sequence, row + 1) for sequence, row in zip(sequences, rows, strict=True))
        return self.sampler.sample(self._logits, sequences, rows)

    def release(self, sequence: Sequence) -> None:
        """Drop the state of a sequence that has ended, or was preempted and will be computed again."""
        self.sampler.release(sequence)
        if self._stateful is not None and (slot := self._slots.pop(sequence, None)) is not None:
            self._stateful.forget(slot)
        self._next_rows.pop(sequence, None)
        self._prompt_logprobs.pop(sequence, None)

    def _batch(self, step: Step) -> Batch:
        """Return the batch of a step, and note the slots of the sequences' states."""
        for sequence, *_ in step.items:
            if sequence.state is not None:
                self._slots[sequence] = sequence.state.slot
        return make_batch(step.items, self.block_size, self._adapter_slots)

    def _take_prompt_logprobs(self, logits: Logits, items: abc.Sequence[ScheduledSequence]) -> list[int]:
        """Store the requested logprobs of prompt tokens, and return the rows to sample from."""
        sampled, row = [], 0
        for item in items:
            sequence, end = item.sequence, row + num_output_rows(item)
            if item.samples:
                sampled.append(end - 1 - len(item.draft))
            num_prompt_rows = end - row - item.samples - len(item.draft)
            options = sequence.request.prompt_logprobs
            if options is not None and num_prompt_rows:
                start = sequence.num_computed_tokens + 1
                token_ids = sequence.token_ids[start : start + num_prompt_rows]
                found = self.sampler.prompt_logprobs(logits, row, token_ids, options)
                self._prompt_logprobs.setdefault(sequence, []).extend(found)
            row = end
        return sampled

    def _with_prompt_logprobs(
        self, sequence: Sequence, result: SampledToken | SequenceError
    ) -> SampledToken | SequenceError:
        found = self._prompt_logprobs.pop(sequence, ())
        return result._replace(prompt_logprobs=found) if found and isinstance(result, SampledToken) else result

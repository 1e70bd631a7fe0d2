"""A replica that uses the product's own scheduler, block pool and sequences, token by token.

It replaces `Replica` to validate its decisions. A token of a prompt or an answer is determined by its position in the
conversation, so that a later turn begins with the cached tokens of the earlier ones.
"""

from __future__ import annotations

from collections import abc

from bench.fleet.simulated.job import NEVER, Job
from bench.fleet.simulated.null_tokenizer import NullTokenizer
from bench.fleet.simulated.replica import Replica, Sizes
from bench.fleet.simulated.step_model import StepModel
from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.engine_core import EngineCore, SampledToken
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.core.step import Step
from service.engine.interface.config import EngineConfig
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest

_SHARED = 1 << 62


class ProductReplica(Replica):
    """A `Replica` with the product's scheduler; it does not support deaths."""

    num_replays = 0

    def __init__(self, number: int, model: StepModel, sizes: Sizes) -> None:
        super().__init__(number, model, sizes)
        table = model.table
        config = EngineConfig(
            max_batch_tokens=sizes.max_batch_tokens,
            max_batch_sequences=sizes.max_batch_sequences,
            max_prefill_chunk=sizes.max_prefill_chunk,
            max_slowdown=sizes.max_slowdown,
            max_queue_wait_s=sizes.max_queue_wait_s,
            num_blocks=table.num_blocks,
            block_size=table.block_size,
            max_model_len=table.num_blocks * table.block_size,
            speculation=False,
        )
        self._clock = 0.0
        pool = BlockPool(table.num_blocks, table.block_size)
        self._core = EngineCore(Scheduler(config, pool), self, lambda: self._clock)
        self._jobs: dict[int, Job] = {}  # by their serials
        self._done: list[Job] = []
        self._next_serial = 0

    @property
    def num_running(self) -> int:
        """Jobs that have begun."""
        return self._core.stats().num_running

    def add(self, job: Job, now: float) -> bool:
        """Enqueue a job."""
        self.num_jobs += 1
        self.num_active += 1
        self._next_serial += 1
        serial = self._next_serial
        self._jobs[serial] = job
        request = GenerationRequest(
            str(serial),
            [
                *range(_shared_token(job, 0), _shared_token(job, job.shared)),
                *(_own_token(job, i) for i in range(job.own)),
            ],
            SamplingParams(),
            StopParams(max_tokens=job.answer, ignore_eos=True),
        )
        group = SequenceGroup(
            request, NullTokenizer(), serial=serial, seed=0, arrived=now, eos_token_ids=(), cache_salt="",
            max_model_len=job.prompt + job.answer,
        )  # fmt: skip
        self._core.add(group)
        if self.until == NEVER:
            self._step(now)
        return True

    def go_on(self, now: float) -> list[Job]:
        """End the current step and begin the next; return the jobs that ended."""
        done, self._done = self._done, []
        self.num_active -= len(done)
        self._step(now)
        return done

    def run(self, step: Step) -> list[SampledToken | None]:
        """Advance the clock by the step's time, and return the sampled tokens (Runner's interface)."""
        decodes = [item for item in step.items if item.samples and item.num_new_tokens == 1]
        context = sum(len(item.sequence.token_ids) for item in decodes)
        num_tokens = step.num_tokens - len(decodes)
        seconds = self._model.seconds(len(decodes), num_tokens, context)
        self._clock += seconds
        self.busy_s += seconds
        return [self._sampled(item.sequence) if item.samples else None for item in step.items]

    def follow(self, sequences: abc.Sequence[Sequence]) -> list[SampledToken]:
        """Raise RuntimeError, since there are no drafts (Runner's interface)."""
        raise RuntimeError(f"there are no drafts of {len(sequences)} sequences")

    def release(self, sequence: Sequence) -> None:
        """Do nothing, since no state is kept (Runner's interface)."""

    def _sampled(self, sequence: Sequence) -> SampledToken:
        job = self._jobs[sequence.group.serial]
        return SampledToken(_own_token(job, len(sequence.token_ids) - job.shared))

    def _step(self, now: float) -> None:
        self.version += 1
        if not self._core.has_work:
            self.until = NEVER
            return
        self._clock = now
        self._core.step()
        report = self._core.report()
        self.until = self._clock
        for serial, output in report.outputs:
            job = self._jobs[serial]
            assert isinstance(output, GenerationOutput)  # noqa: S101  a generator's engine emits nothing else
            timings = output.timings
            job.first_token = timings.first_token or NEVER
            if timings.finished is not None:
                job.ended = timings.finished
                job.cached = output.num_cached_tokens
                self._done.append(self._jobs.pop(serial))
        for serial, _ in report.errors:
            job = self._jobs.pop(serial)
            job.refused = True
            self._done.append(job)


def _shared_token(job: Job, index: int) -> int:
    return -_SHARED + job.shared_key * 65_536 + index


def _own_token(job: Job, index: int) -> int:
    return job.own_key * 65_536 + index

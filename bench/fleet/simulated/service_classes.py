"""Requests of three service classes on one replica, with the product's scheduler and admission of service levels."""

from __future__ import annotations

import math
import random
from collections import abc
from dataclasses import dataclass
from typing import Literal

from bench.fleet.simulated.null_tokenizer import NullTokenizer
from bench.fleet.simulated.step_model import StepModel
from service.engine.client.admission.promises import Promise, Rates, shortage_s
from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.engine_core import EngineCore, SampledToken
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.core.step import Step
from service.engine.interface.config import EngineConfig
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from service.generation.service_level import BATCH, ServiceLevel

Order = Literal["service levels", "clairvoyant", "first come, first served", "earliest deadline first"]


@dataclass(frozen=True)
class ServiceClass:
    """One class of requests; lengths are exponential with these means, in tokens."""

    name: str
    level: ServiceLevel
    prompt: int
    answer: int
    share: float  # of the requests


CLASSES = (
    ServiceClass("interactive", ServiceLevel(0.5, 0.03), 200, 100, 0.5),
    ServiceClass("relaxed", ServiceLevel(3.0, 0.1), 800, 150, 0.3),
    ServiceClass("batch", BATCH, 1000, 300, 0.2),
)


@dataclass(eq=False)
class ClassJob:
    """One request of a class."""

    arrived: float
    of: ServiceClass
    key: str
    prompt: int
    answer: int
    first_token: float = math.inf
    ended: float = math.inf

    def is_good(self, until: float) -> bool:
        """Return whether the answer was whole by then, within the limits of its class."""
        if self.ended > until:
            return False
        token_s = (self.ended - self.first_token) / max(self.answer - 1, 1)
        return self.of.level.is_met(self.first_token - self.arrived, token_s)


def jobs_of(rate: float, duration_s: float, num_keys: int, seed: int) -> list[ClassJob]:
    """Return Poisson arrivals of all classes; each key has every class."""
    draw = random.Random(seed)
    jobs: list[ClassJob] = []
    now = draw.expovariate(rate)
    while now < duration_s:
        (of,) = draw.choices(CLASSES, [each.share for each in CLASSES])
        lengths = [max(1, min(round(draw.expovariate(1 / mean)), 4 * mean)) for mean in (of.prompt, of.answer)]
        jobs.append(ClassJob(now, of, f"key {len(jobs) % num_keys}", *lengths))
        now += draw.expovariate(rate)
    return jobs


def costs_s(jobs: abc.Iterable[ClassJob], model: StepModel, max_sequences: int) -> dict[ClassJob, float]:
    """Return a lower bound of each answer's time: that of its tokens in the most efficient step of each kind."""
    row_s = min(model.seconds(number, 0) / number for number in range(1, max_sequences + 1))
    first_s = model.seconds(0, 1)
    token_s = min((model.seconds(0, number) - first_s) / (number - 1) for number in range(2, 2049))
    return {job: job.prompt * token_s + (job.answer - 1) * row_s for job in jobs}


def most_good(costs: abc.Iterable[float], duration_s: float) -> float:
    """Return an upper bound of the good answers: the cheapest ones whose costs fit into the duration."""
    left_s, number = duration_s, 0.0
    for cost_s in sorted(costs):
        if cost_s > left_s:
            return number + left_s / cost_s
        left_s -= cost_s
        number += 1
    return number


class ClassReplica:
    """One replica that serves the jobs in a given order, until a time at which it stops."""

    num_replays = 0

    def __init__(self, model: StepModel, order: Order, *, max_batch_sequences: int = 128) -> None:
        table = model.table
        self._model = model
        self._order = order
        config = EngineConfig(
            max_batch_sequences=max_batch_sequences,
            max_queue_wait_s=math.inf,
            num_blocks=table.num_blocks,
            block_size=table.block_size,
            max_model_len=table.num_blocks * table.block_size,
            prefix_caching=False,
            speculation=False,
        )
        self._now = 0.0
        pool = BlockPool(table.num_blocks, table.block_size)
        self._core = EngineCore(Scheduler(config, pool), self, lambda: self._now)
        self._groups: dict[int, tuple[ClassJob, SequenceGroup]] = {}
        self._next_serial = 0

    def run_jobs(self, jobs: abc.Sequence[ClassJob], until: float) -> None:
        """Serve the jobs, which are in order of their arrivals."""
        index = 0
        while self._now < until:
            while index < len(jobs) and jobs[index].arrived <= self._now:
                self._add(jobs[index])
                index += 1
            if self._core.has_work:
                self._core.step()
                self._collect()
            elif index < len(jobs):
                self._now = jobs[index].arrived
            else:
                return

    def run(self, step: Step) -> list[SampledToken | None]:
        """Advance the clock by the step's time (Runner's interface)."""
        context = sum(len(item.sequence.token_ids) for item in step.items if item.samples and item.num_new_tokens == 1)
        self._now += self._model.seconds(step.num_decodes, step.num_prompt_tokens, context)
        return [SampledToken(1) if item.samples else None for item in step.items]

    def follow(self, sequences: abc.Sequence[Sequence]) -> list[SampledToken]:
        """Raise RuntimeError, since there are no drafts (Runner's interface)."""
        raise RuntimeError(f"there are no drafts of {len(sequences)} sequences")

    def release(self, sequence: Sequence) -> None:
        """Do nothing, since no state is kept (Runner's interface)."""

    def _add(self, job: ClassJob) -> None:
        """Enqueue a job, unless the product would reject it because of its service level."""
        level = job.of.level if self._order in {"service levels", "clairvoyant"} else BATCH
        if self._order == "service levels" and any(level) and self._is_rejected(job):
            return
        due = job.arrived + (job.of.level.first_token_s or 1e6)
        self._next_serial += 1
        request = GenerationRequest(
            str(self._next_serial),
            [0] * job.prompt,
            SamplingParams(),
            StopParams(max_tokens=job.answer, ignore_eos=True),
            caller_id=job.key,
            service_level=level,
            priority=round(1000 * due) if self._order == "earliest deadline first" else 0,
        )
        group = SequenceGroup(
            request, NullTokenizer(), serial=self._next_serial, seed=0, arrived=job.arrived, eos_token_ids=(),
            cache_salt=f"{self._next_serial}", max_model_len=job.prompt + job.answer,
        )  # fmt: skip
        self._groups[group.serial] = job, group
        self._core.add(group)

    def _is_rejected(self, new: ClassJob) -> bool:
        stats = self._core.stats()
        rates = Rates(stats.decode_step_s, stats.decode_row_s, stats.prompt_token_s)
        opened = [job for job, group in self._groups.values() if any(job.of.level)]
        promises = [_promise(job) for job in (*opened, new)]
        return shortage_s(promises, rates, self._now) > 0

    def _collect(self) -> None:
        """Record the times of first and last tokens."""
        report = self._core.report()
        for serial, output in report.outputs:
            job, _ = self._groups[serial]
            timings = output.timings  # type: ignore[union-attr]  # a generator's engine emits nothing else
            job.first_token = timings.first_token or math.inf
            if timings.finished is not None:
                job.ended = timings.finished
                del self._groups[serial]


def _promise(job: ClassJob) -> Promise:
    has_begun = job.first_token < math.inf
    first_token_s = job.of.level.first_token_s
    due = math.inf if has_begun or first_token_s is None else job.arrived + first_token_s
    return Promise(due, 0 if has_begun else job.prompt, job.of.level.token_s or math.inf, 1)

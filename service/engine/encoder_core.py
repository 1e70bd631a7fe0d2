"""The encoder's step: choose inputs, compute them, hand out vectors.

Owns the jobs that wait, the turns between them and the counts of all. Single-threaded and free of asyncio: whoever
calls it is the encoder's thread. Knows the model only as an `EncoderRunner`, and callers not at all: vectors leave it
as an `EncoderReport`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Rows
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from service.generation.stats import EngineStats

TokenIds: TypeAlias = npt.NDArray[np.int64]  # [tokens]
Vector: TypeAlias = npt.NDArray[np.float32]  # [dimensions]


@dataclass(frozen=True, slots=True)
class EncodingRequest:
    """Texts, as tokens, to make vectors of.

    `deadline` is a `time.monotonic()` instant in seconds. A lower `priority` value is served first.
    """

    request_id: str
    inputs: Rows[TokenIds]
    deadline: float | None = None
    priority: int = 0


@dataclass(eq=False, slots=True)
class EncodingJob:
    """A request on its way. Only the encoder's thread changes it."""

    request: EncodingRequest
    arrived: float
    num_taken: int = 0  # inputs of which the vectors are computed, or being computed


@dataclass(frozen=True, slots=True)
class EncoderReport:
    """What a step brought."""

    began: float  # instant of the core's clock
    vectors: list[tuple[EncodingJob, int, Vector]] = field(default_factory=list)  # with the input's index
    expired: list[EncodingJob] = field(default_factory=list)  # ended by their deadline


class EncoderRunner(Protocol):
    """The computing half of the encoder. Only the encoder's thread calls it."""

    def run(self, inputs: Rows[TokenIds]) -> Rows[Vector]:
        """The vectors, in the order of the inputs. Anything raised ends the engine."""


class EncoderCore:
    """Takes jobs and aborts between steps, and computes one batch at a time.

    A batch is filled by turns: one input of each job of the lowest priority value, then the next of each, so that a job
    of thousands of inputs delays one of a few by no more than a few.
    """

    def __init__(
        self, runner: EncoderRunner, max_batch_tokens: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """A batch has at most `max_batch_tokens`, or one input if that is longer."""
        self._runner = runner
        self._max_batch_tokens = max_batch_tokens
        self._clock = clock
        self._turns: dict[int, deque[EncodingJob]] = {}  # by priority; the first is the next to give an input
        self._stats = EngineStats()

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._turns)

    def add(self, job: EncodingJob) -> None:
        """Let a job wait for its turn."""
        self._turns.setdefault(job.request.priority, deque()).append(job)

    def abort(self, job: EncodingJob) -> None:
        """End a job without a word. Does nothing if it has ended."""
        priority = job.request.priority
        if job in self._turns.get(priority, ()):
            self._turns[priority].remove(job)
            self._forget_empty(priority)

    def step(self) -> EncoderReport:
        """Compute one batch. Whatever the runner raises passes through, and leaves the core unusable."""
        report = EncoderReport(self._clock())
        self._expire(report)
        batch = self._schedule()
        if not batch:
            return report
        inputs = [job.request.inputs[index] for job, index in batch]
        vectors = self._runner.run(inputs)
        report.vectors.extend((job, index, vector) for (job, index), vector in zip(batch, vectors, strict=True))
        num_tokens = sum(map(len, inputs))
        self._stats = replace(
            self._stats,
            step_time_s=self._clock() - report.began,
            step_tokens=num_tokens,
            step_sequences=len(batch),
            num_steps=self._stats.num_steps + 1,
            num_computed_tokens=self._stats.num_computed_tokens + num_tokens,
        )
        return report

    def stats(self) -> EngineStats:
        """A snapshot of the state after the last step: a sequence is an input, and none holds cache blocks."""
        jobs = (job for turn in self._turns.values() for job in turn)
        return replace(self._stats, num_waiting=sum(len(job.request.inputs) - job.num_taken for job in jobs))

    def _expire(self, report: EncoderReport) -> None:
        for priority, turn in list(self._turns.items()):
            for job in list(turn):
                if job.request.deadline is not None and job.request.deadline <= report.began:
                    turn.remove(job)
                    report.expired.append(job)
            self._forget_empty(priority)

    def _schedule(self) -> list[tuple[EncodingJob, int]]:
        """The inputs of the next batch: jobs with their input's index."""
        batch: list[tuple[EncodingJob, int]] = []
        num_left = self._max_batch_tokens
        for priority in sorted(self._turns):
            turn = self._turns[priority]
            while turn:
                job = turn[0]
                num_tokens = len(job.request.inputs[job.num_taken])
                if batch and num_tokens > num_left:
                    return batch
                num_left -= num_tokens
                batch.append((job, job.num_taken))
                job.num_taken += 1
                turn.popleft()
                if job.num_taken < len(job.request.inputs):
                    turn.append(job)
            self._forget_empty(priority)
        return batch

    def _forget_empty(self, priority: int) -> None:
        if not self._turns[priority]:
            del self._turns[priority]

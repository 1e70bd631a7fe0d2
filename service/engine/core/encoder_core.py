"""The encoder's step: choose inputs, compute them, report vectors.

Only the encoder's thread calls this module. An `EncoderRunner` computes the model.
"""

from __future__ import annotations

import logging
import time
from collections import abc, deque
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from service.engine.core.queue.accounts import Account, Accounts
from service.engine.interface.messages import Abort, Add, BeforeStep, Check, Command, Done, Emit, InputVector, Report
from service.generation.errors import DeadlineExceeded, SequenceError
from service.generation.requests.embedding import EmbeddingRequest, TokenIds, Vector
from service.generation.stats import EngineStats

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Job:
    """A request and its progress."""

    serial: int
    request: EmbeddingRequest
    num_started: int = 0  # inputs whose vectors are computed or being computed


class _Key(Account):
    """The jobs of one API key, by priority; the first job of a priority supplies the next input."""

    __slots__ = ("turns",)

    def __init__(self, served: float) -> None:
        super().__init__(served)
        self.turns: dict[int, deque[_Job]] = {}

    def forget(self, job: _Job) -> None:
        """Remove a job that has no more inputs."""
        priority = job.request.priority
        self.turns[priority].remove(job)
        if not self.turns[priority]:
            del self.turns[priority]


class EncoderRunner(Protocol):
    """The model of an encoder core. Only the encoder's thread calls it."""

    def run(self, inputs: abc.Sequence[TokenIds], second_starts: abc.Sequence[int] = ()) -> abc.Sequence[Vector]:
        """Return the vectors, in the order of the inputs. An exception ends the engine.

        `second_starts` has the offset of the second text of each pair, 0 for a single text. It is empty if no input is
        a pair.
        """


class EncoderCore:
    """A `loop.Core` that computes one batch at a time.

    The next input of a step belongs to the key with the least service so far, in tokens divided by weight; those of
    clients' batches are computed when there are no others. The jobs of
    a key take turns within the lowest priority value, one input each, so that a job of thousands of inputs delays a
    small job only slightly.
    """

    def __init__(
        self, runner: EncoderRunner, max_batch_tokens: int, clock: abc.Callable[[], float] = time.monotonic
    ) -> None:
        """A batch has at most `max_batch_tokens` tokens, or a single input that is longer."""
        self._runner = runner
        self._max_batch_tokens = max_batch_tokens
        self._clock = clock
        self._jobs: dict[int, _Job] = {}  # jobs with inputs that are not computed yet
        self._keys = Accounts(_Key)
        self._batches = Accounts(_Key)  # the keys with requests of batches, which are computed when there are no others
        self._stats = EngineStats()
        self._report = Report()  # not emitted yet

    @property
    def has_work(self) -> bool:
        """True if any input is left to compute."""
        return bool(self._jobs)

    @property
    def output_interval_s(self) -> float:
        """Always 0: every vector is reported immediately."""
        return 0.0

    def open(self, emit: Emit) -> None:
        """Set the receiver of reports about commands."""
        self._emit = emit

    def receive(self, command: Command) -> None:
        """Handle one command. A failure is reported under the command's serial."""
        match command:
            case Add(serial, EmbeddingRequest() as request):
                self._add(_Job(serial, request))
            case Abort(serial):
                self._abort(serial)
            case Check(serial):
                self._emit(Report(outputs=[(serial, Done())]))
            case Add(serial):
                _log.error("not an embedding request: %s", type(command.request).__name__)
                self._emit(Report(errors=[(serial, SequenceError("the request could not be added"))]))

    def step(self, before: BeforeStep | None = None) -> bool:  # noqa: ARG002  no output is collected over steps
        """Compute one batch. Always return True: every vector is reported immediately.

        An exception of the runner is raised, and leaves the core unusable.
        """
        began = self._clock()
        self._expire(self._report, began)
        if batch := self._schedule():
            self._compute(batch, self._report, began)
        return True

    def report(self, *, only_urgent: bool = False) -> Report:  # noqa: ARG002  every vector is urgent
        """Return the output since the last report, and the engine's state."""
        report, self._report = self._report, Report()
        report.stats.append(self.stats())
        return report

    def close(self) -> None:
        """Do nothing: an encoder has no other threads."""

    def _compute(self, batch: list[tuple[_Job, int]], report: Report, began: float) -> None:
        """Compute the vectors of a batch, and report them with their share of the step's time."""
        inputs = [job.request.inputs[index] for job, index in batch]
        starts = [job.request.second_starts[index] if job.request.second_starts else 0 for job, index in batch]
        vectors = self._runner.run(inputs, starts if any(starts) else ())
        report.started.extend(job.serial for job, index in batch if index == 0)
        num_tokens = sum(map(len, inputs))
        step_time_s = self._clock() - began
        each_s = step_time_s / num_tokens
        report.outputs.extend(
            (job.serial, InputVector(index, vector, began, len(job.request.inputs[index]) * each_s))
            for (job, index), vector in zip(batch, vectors, strict=True)
        )
        self._stats = self._stats._replace(
            step_time_s=step_time_s,
            busy_s=self._stats.busy_s + step_time_s,
            step_tokens=num_tokens,
            step_sequences=len(batch),
            num_steps=self._stats.num_steps + 1,
            num_computed_tokens=self._stats.num_computed_tokens + num_tokens,
        )

    def stats(self) -> EngineStats:
        """Return a snapshot of the state after the last step. Each input counts as a sequence without cache blocks."""
        num_waiting = sum(len(job.request.inputs) - job.num_started for job in self._jobs.values())
        return self._stats._replace(num_waiting=num_waiting)

    def _add(self, job: _Job) -> None:
        request = job.request
        key = self._accounts(request).enter(request.caller_id, request.weight, waits=lambda key: bool(key.turns))
        key.turns.setdefault(request.priority, deque()).append(job)
        self._jobs[job.serial] = job

    def _abort(self, serial: int) -> None:
        if serial in self._jobs:
            self._forget(self._jobs[serial])

    def _forget(self, job: _Job) -> None:
        """Remove a job."""
        del self._jobs[job.serial]
        accounts = self._accounts(job.request)
        accounts[job.request.caller_id].forget(job)
        accounts.leave(job.request.caller_id)

    def _accounts(self, request: EmbeddingRequest) -> Accounts[_Key]:
        return self._batches if request.is_batch else self._keys

    def _expire(self, report: Report, now: float) -> None:
        """Abort the jobs whose deadline has passed, and report the error of each."""
        for job in list(self._jobs.values()):
            if job.request.deadline is not None and job.request.deadline <= now:
                self._abort(job.serial)
                error = DeadlineExceeded("the deadline passed before all vectors were computed")
                report.errors.append((job.serial, error))

    def _schedule(self) -> list[tuple[_Job, int]]:
        """Return the inputs of the next batch, each as a job and the input's index."""
        batch: list[tuple[_Job, int]] = []
        num_left = self._max_batch_tokens
        while self._jobs:
            key = min(self._keys.active or self._batches.active, key=attrgetter("served"))
            turn = key.turns[min(key.turns)]
            job = turn[0]
            num_tokens = len(job.request.inputs[job.num_started])
            if batch and num_tokens > num_left:
                break
            num_left -= num_tokens
            key.charge(num_tokens)
            batch.append((job, job.num_started))
            job.num_started += 1
            turn.rotate(-1)
            if job.num_started == len(job.request.inputs):
                self._forget(job)
        return batch

"""The encoder's door, for asyncio.

Owns the open requests and the encoder's thread. Its methods belong to the event loop that started it. Knows no
transport, and texts only as their tokens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from collections.abc import Sequence as Rows
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from service.engine.admission import retry_after_s
from service.engine.config import EngineConfig
from service.engine.encoder_core import (
    EncoderCore,
    EncoderReport,
    EncoderRunner,
    EncodingJob,
    EncodingRequest,
    Vector,
)
from service.engine.engine import StepObserver
from service.engine.engine_thread import EngineThread
from service.generation.errors import (
    DeadlineExceeded,
    EngineClosed,
    EngineError,
    EngineFailed,
    EngineOverloaded,
    InvalidRequest,
    PromptTooLong,
)
from service.generation.stats import EngineStats


@dataclass(frozen=True, slots=True)
class Encoding:
    """The vectors of a request, in the order of its inputs, and instants of `time.monotonic()`."""

    vectors: Rows[Vector]
    arrived: float
    scheduled: float  # when the first batch with one of its inputs began
    finished: float


@dataclass(slots=True)
class _Pending:
    """What the loop knows of an open request."""

    done: asyncio.Future[Encoding]
    num_left: int  # inputs without a vector, and their tokens
    num_left_tokens: int
    vectors: list[Vector | None] = field(default_factory=list)
    scheduled: float | None = None


class EncoderEngine:
    """Makes vectors for many requests at a time, in a thread of its own.

    `async with EncoderEngine(...)` or `start()` … `await close()`. `failed` is done, with the reason, when the thread
    died: from then on nothing is served, and the process should end.
    """

    def __init__(
        self,
        runner: EncoderRunner,
        config: EngineConfig,
        *,
        vocab_size: int,
        observer: StepObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`config` must have its `max_model_len`; ValueError otherwise. What it says of a cache doesn't count."""
        if config.max_model_len is None:
            raise ValueError("max_model_len must be known before the engine is made")
        self.max_model_len = config.max_model_len
        self._vocab_size = vocab_size
        self._config = config
        self._observer = observer
        self._clock = clock
        self._pending: dict[EncodingJob, _Pending] = {}  # oldest first
        self._is_closed = False
        self._left = asyncio.Event()  # set whenever a caller leaves
        self._core = EncoderCore(runner, config.max_batch_tokens, clock)  # the thread's
        self._thread = EngineThread(
            self._core,
            name="encoder",
            on_report=self._deliver,
            on_failure=self._fail,
        )

    def start(self) -> None:
        """Start the thread. Call it on the loop of the callers."""
        self._thread.start()
        self.failed = self._thread.failed

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def heartbeat_age_s(self) -> float:
        """Seconds since the thread last began a step or, when idle, looked for work: about a second at most then."""
        return self._thread.heartbeat_age_s

    def stats(self) -> EngineStats:
        """The state after the last step, or after what has come or gone since."""
        return self._thread.stats()

    async def encode(self, request: EncodingRequest) -> Encoding:
        """Compute the vectors of all inputs. A caller who is cancelled ends the request.

        Raises InvalidRequest or PromptTooLong, which name the input as `inputs[i]`, EngineOverloaded, EngineClosed,
        EngineFailed or DeadlineExceeded.
        """
        job = self._admit(request)
        try:
            return await self._pending[job].done
        finally:
            if self._pending.pop(job).num_left:
                self._thread.call(self._core.abort, job)
            self._left.set()

    async def drain(self, timeout_s: float) -> None:
        """Refuse new requests, wait until all callers have left, then end what is left with EngineClosed."""
        self._is_closed = True
        try:
            async with asyncio.timeout(timeout_s):
                while self._pending:
                    self._left.clear()
                    await self._left.wait()
        except TimeoutError:
            for job in self._pending:
                self._end(job, EngineClosed("the engine was stopped before all vectors were computed"))

    async def close(self) -> None:
        """End all requests and the thread; returns when the step in progress, if any, is done."""
        if not self._thread.is_started:
            return
        await self.drain(0)
        await self._thread.stop()

    def _admit(self, request: EncodingRequest) -> EncodingJob:
        now = self._clock()
        if self.failed.done():
            raise EngineFailed("the engine has failed")
        if self._is_closed:
            raise EngineClosed("the engine takes no new requests")
        if request.deadline is not None and request.deadline <= now:
            raise DeadlineExceeded("the deadline passed before the request began")
        self._check(request)
        num_tokens = sum(map(len, request.inputs))
        self._check_room(num_tokens, now)
        job = EncodingJob(request, now)
        num_inputs = len(request.inputs)
        done: asyncio.Future[Encoding] = asyncio.get_running_loop().create_future()
        self._pending[job] = _Pending(done, num_inputs, num_tokens, [None] * num_inputs)
        self._thread.call(self._core.add, job)
        return job

    def _check(self, request: EncodingRequest) -> None:
        if not request.inputs:
            raise InvalidRequest("inputs", "there is no input")
        for index, token_ids in enumerate(request.inputs):
            if not len(token_ids):
                raise InvalidRequest(f"inputs[{index}]", "the input has no tokens")
            if len(token_ids) > self.max_model_len:
                raise PromptTooLong(f"inputs[{index}]", len(token_ids), self.max_model_len)
            if token_ids.min() < 0 or token_ids.max() >= self._vocab_size:
                message = f"a token id of the input is not below the vocabulary's size, {self._vocab_size}"
                raise InvalidRequest(f"inputs[{index}]", message)

    def _check_room(self, num_tokens: int, now: float) -> None:
        """By turns, what is computed before a request ends are its own tokens and as many of each of the others."""
        if not self._pending:
            return  # a request larger than the whole queue may still be served, alone
        num_before = sum(min(each.num_left_tokens, num_tokens) for each in self._pending.values())
        if len(self._pending) >= self._config.max_queue_requests:
            message = f"{len(self._pending)} requests wait already"
        elif num_before + num_tokens > self._config.max_queue_tokens:
            message = f"{num_before} tokens of other requests would be computed first"
        else:
            return
        raise EngineOverloaded(message, retry_after_s(now - next(iter(self._pending)).arrived))

    def _end(self, job: EncodingJob, error: EngineError) -> None:
        if (pending := self._pending.get(job)) and not pending.done.done():
            pending.done.set_exception(error)

    def _deliver(self, report: EncoderReport, stats: EngineStats) -> None:
        now = self._clock()
        for job, index, vector in report.vectors:
            if (pending := self._pending.get(job)) is None:
                continue  # its caller has left
            pending.vectors[index] = vector
            pending.num_left -= 1
            pending.num_left_tokens -= len(job.request.inputs[index])
            if pending.scheduled is None:
                pending.scheduled = report.began
            if not pending.num_left and not pending.done.done():
                vectors = [each for each in pending.vectors if each is not None]
                pending.done.set_result(Encoding(vectors, job.arrived, pending.scheduled, now))
        for job in report.expired:
            self._end(job, DeadlineExceeded("the deadline passed before all vectors were computed"))
        if self._observer:
            self._observer.on_step(stats)

    def _fail(self, reason: BaseException) -> None:
        for job in self._pending:
            error = EngineFailed("the engine has failed")
            error.__cause__ = reason
            self._end(job, error)

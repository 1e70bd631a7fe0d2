"""The engine's door, for asyncio.

Owns the open streams and the engine's thread. Its methods belong to the event loop that started it. Two things cross
between loop and thread: requests and aborts on the way to the core, and each step's report on the way back. Knows no
transport.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from itertools import count
from types import TracebackType
from typing import Protocol, Self

from service.engine.admission import check_request, retry_after_s
from service.engine.block_pool import BlockPool
from service.engine.config import EngineConfig
from service.engine.core import EngineCore, Runner, StepReport
from service.engine.engine_thread import EngineThread
from service.engine.output_stream import OutputStream
from service.engine.scheduler import Scheduler
from service.engine.sequence import SequenceGroup
from service.engine.tokenizer import Tokenizer
from service.generation.errors import (
    DeadlineExceeded,
    EngineClosed,
    EngineError,
    EngineFailed,
    EngineOverloaded,
    InvalidRequest,
)
from service.generation.output import GenerationOutput
from service.generation.request import GenerationRequest
from service.generation.stats import EngineStats


class StepObserver(Protocol):
    """Is told the engine's state after each step, on the event loop."""

    def on_step(self, stats: EngineStats) -> None:
        """Must return at once."""


class Engine:
    """Generates for many requests at a time, in a thread of its own.

    `async with Engine(...)` or `start()` … `await close()`. `failed` is done, with the reason, when the thread died:
    from then on nothing is served, and the process should end.
    """

    def __init__(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        config: EngineConfig,
        *,
        eos_token_ids: Collection[int],
        observer: StepObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`config` must have its `num_blocks` and `max_model_len`; ValueError otherwise."""
        if config.num_blocks is None or config.max_model_len is None:
            raise ValueError("num_blocks and max_model_len must be known before the engine is made")
        pool = BlockPool(config.num_blocks, config.block_size)
        # A sequence alone in the cache must be able to reach its end, or it could neither run on nor make room.
        self.max_model_len = min(config.max_model_len, config.num_blocks * config.block_size)
        self._core = EngineCore(Scheduler(config, pool), runner, clock)
        self._tokenizer = tokenizer
        self._config = config
        self._eos_token_ids = frozenset(eos_token_ids)
        self._observer = observer
        self._clock = clock
        self._serials = count()
        self._streams: dict[SequenceGroup, OutputStream] = {}
        self._queued: dict[SequenceGroup, None] = {}  # those of which nothing has run yet, oldest first
        self._num_queued_tokens = 0
        self._is_closed = False
        self._left = asyncio.Event()  # set whenever a reader leaves
        self._thread = EngineThread(self._core, name="engine", on_report=self._deliver, on_failure=self._fail)

    def start(self) -> None:
        """Start the thread. Call it on the loop that will read."""
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

    @asynccontextmanager
    async def generate(self, *requests: GenerationRequest) -> AsyncIterator[AsyncIterator[GenerationOutput]]:
        """Open the stream of all outputs of one request or several; leaving the context ends what is left of them.

        Several requests are admitted all or none, and an error of one ends the stream of all.

        On entry raises InvalidRequest, PromptTooLong, EngineOverloaded, EngineClosed, EngineFailed or
        DeadlineExceeded; the last three, and SequenceError, may also be raised by the stream, after its last output.
        """
        stream = OutputStream(sum(request.n for request in requests))
        groups = self._admit(requests)
        self._streams |= dict.fromkeys(groups, stream)
        try:
            yield stream
        finally:
            self._leave(groups, stream)

    async def drain(self, timeout_s: float) -> None:
        """Refuse new requests, wait until all readers have left, then end what is left with EngineClosed."""
        self._is_closed = True
        try:
            async with asyncio.timeout(timeout_s):
                while self._streams:
                    self._left.clear()
                    await self._left.wait()
        except TimeoutError:
            for group in list(self._streams):
                self._thread.call(self._core.abort, group)
                self._end(group, EngineClosed("the engine was stopped before the answer was complete"))

    async def close(self) -> None:
        """End all streams and the thread; returns when the step in progress, if any, is done."""
        if not self._thread.is_started:
            return
        await self.drain(0)
        await self._thread.stop()

    def _admit(self, requests: Sequence[GenerationRequest]) -> list[SequenceGroup]:
        now = self._clock()
        if self.failed.done():
            raise EngineFailed("the engine has failed")
        if self._is_closed:
            raise EngineClosed("the engine takes no new requests")
        if any(request.deadline is not None and request.deadline <= now for request in requests):
            raise DeadlineExceeded("the deadline passed before the request began")
        for index, request in enumerate(requests):
            self._check(request, index)
        self._check_room(requests, now)
        groups = [self._group(request, index, now) for index, request in enumerate(requests)]
        for group in groups:
            self._queued[group] = None
            self._num_queued_tokens += len(group.request.prompt_token_ids)
            self._thread.call(self._core.add, group)
        return groups

    def _check(self, request: GenerationRequest, request_index: int) -> None:
        try:
            check_request(
                request,
                vocab_size=self._tokenizer.vocab_size,
                max_model_len=self.max_model_len,
                max_choices=self._config.max_batch_sequences,
            )
        except InvalidRequest as error:
            error.request_index = request_index
            raise

    def _group(self, request: GenerationRequest, request_index: int, now: float) -> SequenceGroup:
        serial = next(self._serials)
        return SequenceGroup(
            request,
            self._tokenizer,
            serial=serial,
            seed=secrets.randbits(63) if request.sampling.seed is None else request.sampling.seed,
            arrived=now,
            eos_token_ids=self._eos_token_ids,
            max_model_len=self.max_model_len,
            # Without prefix caching each request has a name space of its own, where only its choices meet.
            cache_salt=f"shared {request.cache_salt}" if self._config.prefix_caching else f"alone {serial}",
            request_index=request_index,
        )

    def _check_room(self, requests: Sequence[GenerationRequest], now: float) -> None:
        if not self._queued:
            return  # what is longer than the whole queue may still be served, alone
        num_tokens = sum(len(request.prompt_token_ids) for request in requests)
        if len(self._queued) + len(requests) > self._config.max_queue_requests:
            message = f"{len(self._queued)} requests wait already"
        elif self._num_queued_tokens + num_tokens > self._config.max_queue_tokens:
            message = f"requests with {self._num_queued_tokens} prompt tokens wait already"
        else:
            return
        raise EngineOverloaded(message, retry_after_s(now - next(iter(self._queued)).arrived))

    def _leave(self, groups: Sequence[SequenceGroup], stream: OutputStream) -> None:
        for group in groups:
            del self._streams[group]
            self._dequeue(group)
            if not stream.is_complete:
                self._thread.call(self._core.abort, group)
        stream.close()
        self._left.set()

    def _dequeue(self, group: SequenceGroup) -> None:
        if group in self._queued:
            del self._queued[group]
            self._num_queued_tokens -= len(group.request.prompt_token_ids)

    def _end(self, group: SequenceGroup, error: EngineError) -> None:
        self._dequeue(group)
        if stream := self._streams.get(group):
            stream.end(error)

    def _deliver(self, report: StepReport, stats: EngineStats) -> None:
        for group in report.started:
            self._dequeue(group)
        for group, output in report.outputs:
            if stream := self._streams.get(group):
                stream.put(output)
        for group, error in report.errors:
            self._end(group, error)
        if self._observer:
            self._observer.on_step(stats)

    def _fail(self, reason: BaseException) -> None:
        for group in list(self._streams):
            error = EngineFailed("the engine has failed")
            error.__cause__ = reason
            self._end(group, error)

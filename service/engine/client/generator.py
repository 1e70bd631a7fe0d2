"""The client of a generating engine: `service.engine.interface.port.Generator` on the event loop."""

from __future__ import annotations

import asyncio
import time
from collections import abc
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from service.engine.client.adapters import Adapters
from service.engine.client.admission.admission import Admission
from service.engine.client.engine_client import EngineClient
from service.engine.client.open_generation import OpenGeneration, description_of
from service.engine.client.output_stream import OutputStream
from service.engine.client.pending_call import PendingCall
from service.engine.client.request_check import check_limit, check_request
from service.engine.client.wakeups import WakeupLimiter
from service.engine.interface.cache_group import ONE_GROUP, CacheGroup
from service.engine.interface.config import EngineConfig, max_sequence_len
from service.engine.interface.description import GeneratorDescription
from service.engine.interface.in_flight_limit import InFlightLimit
from service.engine.interface.messages import Add, Compile, Compiled, Report
from service.engine.interface.port import Outputs, StepObserver
from service.engine.interface.retry import retry_after_s
from service.engine.link.link import Link
from service.generation.adapter import AdapterLoaded
from service.generation.errors import (
    DeadlineExceeded,
    EngineClosed,
    EngineError,
    EngineOverloaded,
)
from service.generation.formats.constraint import Constraint
from service.generation.requests.parameters import Ranges
from service.generation.requests.request import GenerationRequest
from service.generation.stats import EngineStats

MAX_COMPILE_WAIT_S = 5.0
_Result = TypeVar("_Result")

_MAX_COMPILE_WAITS = 6.0  # a constraint may take this many times `max_compile_wait_s` to compile, by elapsed time


class GeneratorClient(EngineClient[OpenGeneration]):
    """Generates for concurrent requests."""

    def __init__(
        self,
        link: Link,
        config: EngineConfig,
        *,
        vocab_size: int,
        ranges: Ranges | None = None,
        cache_groups: abc.Sequence[CacheGroup] = ONE_GROUP,
        max_compile_wait_s: float = MAX_COMPILE_WAIT_S,
        observer: StepObserver | None = None,
        clock: abc.Callable[[], float] = time.monotonic,
        is_asleep: bool = False,
    ) -> None:
        """Raise ValueError if `num_blocks` or `max_model_len` of `config` is None.

        `ranges` has the allowed ranges of parameters, by their paths; `cache_groups` are the model's. A constraint
        waits for a thread for at most `max_compile_wait_s`, and for its compilation for at most six times as long. With
        `is_asleep`, `config` and `cache_groups` are a plan's, and `wake` loads the model for the first time.
        """
        max_len = max_sequence_len(config, cache_groups)
        super().__init__(link, max_model_len=max_len, observer=observer, clock=clock, is_asleep=is_asleep)
        self._config = config
        self._vocab_size = vocab_size
        self._ranges = ranges or {}
        self._max_compile_wait_s = max_compile_wait_s
        self._admission = Admission(config)
        self._wakeups = WakeupLimiter()
        self._adapters = Adapters(config, self._call)

    async def load_adapter(self, name: str, folder: Path) -> AdapterLoaded:
        """Load an adapter for requests that name it. Raise AdapterRejected, TooManyAdapters, or an EngineError."""
        self._reject_if_unavailable()
        return await self._adapters.load(name, folder)

    def add_unloaded_adapter(self, name: str, folder: Path, digest: str) -> None:
        """Add an adapter to an engine that sleeps: its wake loads it. Raise AdapterRejected or TooManyAdapters."""
        self._adapters.add_unloaded(name, folder, digest)

    async def drop_adapter(self, name: str, timeout_s: float) -> None:
        """Unload an adapter after its requests have ended. Those still open at the timeout end with EngineClosed.

        The caller must not start requests with the adapter any more.
        """
        error = EngineClosed("the adapter was unloaded before the request was complete")
        await self._end_after(
            timeout_s, error, lambda each: isinstance(each, OpenGeneration) and each.request.adapter == name
        )
        is_down = self.is_restarting or self.is_asleep or self.failed.done()
        await self._adapters.drop(name, is_down=is_down)

    def on_restart(self) -> None:
        """Serve new requests again, with the same adapters."""
        super().on_restart()
        self._adapters.load_again()

    def _on_loaded(self, description: Any) -> None:
        """Replace the limits of a plan by those that the first load chose."""
        if isinstance(description, GeneratorDescription) and description.config != self._config:
            self._config = description.config
            self._admission = Admission(self._config)
            self.max_model_len = max_sequence_len(self._config, description.cache_groups)

    def stats(self) -> EngineStats:
        """Return the state after the last step. Under overload, `max_running` is lower."""
        max_running = self._admission.max_running(self._clock(), self._stats.last.max_running)
        return self._stats.last._replace(max_running=max_running)

    def on_report(self, report: Report) -> None:
        """Deliver a report, and measure the rates of starts and tokens."""
        begun = (self._opened.get(serial) for serial in report.started)
        num_begun = sum(isinstance(each, OpenGeneration) and not each.request.is_batch for each in begun)
        if num_begun:
            self._admission.queue_wait.record_start(self._clock(), num_begun)
        in_flight = [each for each in self._others() if not each.is_complete]
        super().on_report(report)
        if report.stats:
            self._admission.record_steps(self._clock(), len(in_flight), report.stats, self._stats.last)

    def in_flight_limit(self) -> InFlightLimit | None:
        """Return the number of requests that may be in flight, or None if no answer was measured yet."""
        return self._admission.in_flight_limit(self._clock())

    def reject_if_overloaded(
        self, caller_id: str, weight: float, deadline: float | None = None, waited_s: float | None = None
    ) -> None:
        """Raise EngineOverloaded if a request of `caller_id` would be queued for too long. Call it before any work.

        `waited_s` is the time that the request has waited before it reached the service, if known.
        """
        self._admission.check_arrival(
            self._clock(), (caller_id, weight), self._others(), self._stats.last, deadline=deadline, waited_s=waited_s
        )

    @asynccontextmanager
    async def generate(self, *requests: GenerationRequest) -> abc.AsyncIterator[Outputs]:
        """Open the stream of outputs of one or more requests. Leaving the context aborts unfinished requests.

        Several requests are admitted together or not at all, and an error of one ends the stream of all. Entering the
        context returns when all are admitted and their constraints compiled.

        Entering the context raises InvalidRequest or a subclass, EngineOverloaded, EngineRestarting, EngineClosed,
        EngineFailed or DeadlineExceeded. The stream raises the last three and SequenceError after its last output.
        """
        self._reject_if_unavailable(*(request.deadline for request in requests))
        for request in requests:
            self._check(request)
        self._admit(requests)
        stream = OutputStream(sum(request.n for request in requests), self._wakeups)
        if any(request.constraint for request in requests):
            serials = await self._add_constrained(requests, stream)
        else:
            serials = self._add(requests, stream, [None] * len(requests))
        try:
            yield stream
        finally:
            if self._quarantine and stream.is_complete and not self.is_restarting:
                for request in requests:
                    self._quarantine.clear(description_of(request))
            self._leave(*serials)
            stream.close()

    def _admit(self, requests: abc.Sequence[GenerationRequest]) -> None:
        """Raise EngineOverloaded unless requests can be admitted. Those of batches always are: they yield to others."""
        if not requests[0].is_batch:
            self._admission.check(self._clock(), requests, self._others(), self._stats.last)

    def _others(self) -> list[OpenGeneration]:
        """Return the open requests that are not of batches."""
        return [each for each in self._requests() if not each.request.is_batch]

    def _check(self, request: GenerationRequest) -> None:
        check_request(
            request,
            ranges=self._ranges,
            vocab_size=self._vocab_size,
            max_model_len=self.max_model_len,
            max_choices=self._config.max_batch_sequences,
        )
        self._adapters.check(request.adapter)
        if self._quarantine:
            self._check_quarantine(request)

    def _check_quarantine(self, request: GenerationRequest) -> None:
        description = description_of(request)
        self._quarantine.check(description, request.prompt_field)
        if request.constraint is not None:
            self._quarantine.check(repr(request.constraint), request.prompt_field)
        if not self._quarantine.must_be_alone(description):
            return
        for each in self._requests():
            if self._quarantine.must_be_alone(description_of(each.request)):
                message = "the engine has failed during this request, which has to wait for other such requests"
                raise EngineOverloaded(message, retry_after_s(self._clock() - each.arrived))

    def _add(
        self,
        requests: abc.Sequence[GenerationRequest],
        stream: OutputStream,
        constraint_serials: abc.Sequence[int | None],
    ) -> list[int]:
        now = self._clock()
        if not requests[0].is_batch:
            num_waiting = sum(each.is_waiting for each in self._others())
            self._admission.record_arrivals(now, num_waiting, len(requests))
        serials = []
        try:
            for index, (request, constraint_serial) in enumerate(zip(requests, constraint_serials, strict=True)):
                command = partial(
                    Add,
                    # The core already has the compiled constraint.
                    request=replace(request, constraint=None) if request.constraint else request,
                    arrived=now,
                    request_index=index,
                    constraint_serial=constraint_serial,
                )
                admission = self._admission
                opened = OpenGeneration(
                    request, stream, now, admission.queue_wait, self._clock, record_answer=admission.record_answer
                )
                serials.append(self._open(opened, command))
        except BaseException:  # a request cannot be pickled: abort the requests before it
            self._leave(*serials)
            raise
        return serials

    async def _add_constrained(self, requests: abc.Sequence[GenerationRequest], stream: OutputStream) -> list[int]:
        """Compile the constraints, equal ones only once, and then add the requests."""
        compiling: list[tuple[Constraint, int, PendingCall]] = []
        try:
            constraint_serials = [
                self._compile(request.constraint, request.caller_id, compiling) if request.constraint else None
                for request in requests
            ]
            deadline = min((each.deadline for each in requests if each.deadline is not None), default=None)
            for constraint, _, pending_call in compiling:
                num_tokens = await self._compiled(pending_call, deadline)
                for request in requests:
                    if num_tokens and request.constraint == constraint:
                        check_limit(request, num_tokens, max_model_len=self.max_model_len)
            self._reject_if_unavailable(deadline)
            for request in requests:
                self._adapters.check(request.adapter)  # it may have been unloaded meanwhile
            self._admit(requests)  # others may have been admitted meanwhile
            return self._add(requests, stream, constraint_serials)
        finally:
            self._leave(*(serial for _, serial, _ in compiling))

    def _compile(
        self, constraint: Constraint, caller_id: str, compiling: list[tuple[Constraint, int, PendingCall]]
    ) -> int:
        for other, serial, _ in compiling:
            if other == constraint:
                return serial
        pending_call = PendingCall(repr(constraint))
        serial = self._open(pending_call, partial(Compile, constraint=constraint, caller_id=caller_id))
        compiling.append((constraint, serial, pending_call))
        return serial

    async def _compiled(self, pending_call: PendingCall, deadline: float | None) -> int | None:
        """Wait for a compilation. Return the number of tokens of the shortest matching answer, or None if unknown.

        The core limits a compilation's processor time. This method limits the waits for a thread and for the result,
        which depend on other work, and raises EngineOverloaded after either limit.
        """
        wait_s = self._max_compile_wait_s
        busy = EngineOverloaded("the threads that compile constraints are busy with others", retry_after_s(wait_s))
        await self._within(pending_call.started.wait(), wait_s, deadline, busy)
        wait_s *= _MAX_COMPILE_WAITS
        message = f"the constraint was not compiled within {wait_s:g} s, since other work delays it"
        delayed = EngineOverloaded(message, retry_after_s(wait_s))
        done = await self._within(pending_call.done, wait_s, deadline, delayed)
        return done.num_tokens if isinstance(done, Compiled) else None

    async def _within(
        self, work: abc.Awaitable[_Result], limit_s: float, deadline: float | None, too_long: EngineError
    ) -> _Result:
        """Wait for `work`. Raise `too_long` after `limit_s`, or DeadlineExceeded if the deadline is earlier.

        The earlier one is chosen before the wait, because a timer may fire slightly before its time.
        """
        error = too_long
        if deadline is not None and deadline - self._clock() < limit_s:
            limit_s = deadline - self._clock()
            error = DeadlineExceeded("the deadline passed before the request was ready to run")
        try:
            async with asyncio.timeout(limit_s):
                return await work
        except TimeoutError:
            raise error from None

"""A generating engine on the event loop, as `service.engine.port.Generator` describes it."""

from __future__ import annotations

import asyncio
import time
from collections import abc
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from service.engine.client.adapters import Adapters
from service.engine.client.front import EngineClient
from service.engine.client.open_generation import OpenGeneration, words_of
from service.engine.client.output_stream import OutputStream
from service.engine.client.overload import OverloadDetector
from service.engine.client.pending_call import PendingCall
from service.engine.client.queue_wait import KeyLoad, QueueWaitEstimator, has_little
from service.engine.client.request_check import check_limit, check_request
from service.engine.client.wakeups import WakeupLimiter
from service.engine.config import EngineConfig
from service.engine.limits import max_sequence_len
from service.engine.link.link import Link
from service.engine.messages import Add, Compile, Compiled, Report
from service.engine.port import Outputs, StepObserver
from service.engine.retry import retry_after_s
from service.generation.adapter import AdapterLoaded
from service.generation.constraint import Constraint
from service.generation.errors import (
    DeadlineExceeded,
    EngineClosed,
    EngineError,
    EngineOverloaded,
    UnsupportedConstraint,
)
from service.generation.parameters import Ranges
from service.generation.request import GenerationRequest
from service.generation.stats import EngineStats

MAX_COMPILE_S = 5.0
_Brought = TypeVar("_Brought")

_DEADLINE_PART = 0.5  # of the time until a deadline, in which a request is to begin


class GeneratorClient(EngineClient[OpenGeneration]):
    """Generates for many requests at a time."""

    def __init__(
        self,
        link: Link,
        config: EngineConfig,
        *,
        vocab_size: int,
        ranges: Ranges | None = None,
        max_compile_s: float = MAX_COMPILE_S,
        observer: StepObserver | None = None,
        clock: abc.Callable[[], float] = time.monotonic,
    ) -> None:
        """`config` must have its `num_blocks` and `max_model_len`; ValueError otherwise.

        `ranges` are those of the parameters, by their paths. A constraint may take `max_compile_s` to compile, and as
        long may it wait for a thread.
        """
        super().__init__(link, max_model_len=max_sequence_len(config), observer=observer, clock=clock)
        self._config = config
        self._vocab_size = vocab_size
        self._ranges = ranges or {}
        self._max_compile_s = max_compile_s
        self._queue_wait = QueueWaitEstimator()
        self._overload = OverloadDetector()
        self._wakeups = WakeupLimiter()
        self._adapters = Adapters(config, self._ask)

    async def load_adapter(self, name: str, folder: Path) -> AdapterLoaded:
        """Hold an adapter for requests that name it.

        Raises AdapterRefused or TooManyAdapters, and what keeps any request from being served.
        """
        self._refuse_if_away()
        return await self._adapters.load(name, folder)

    async def drop_adapter(self, name: str, timeout_s: float) -> None:
        """Forget an adapter once its requests have ended; those that haven't by then end with EngineClosed.

        Nobody may begin a request with it any more.
        """
        error = EngineClosed("the adapter was unloaded before the request was complete")
        await self._end_after(
            timeout_s, error, lambda each: isinstance(each, OpenGeneration) and each.request.adapter == name
        )
        is_away = self.is_restarting or self.is_asleep or self.failed.done()
        await self._adapters.drop(name, is_away=is_away)

    def on_restart(self) -> None:
        """New requests are served again, with the adapters that there were."""
        super().on_restart()
        self._adapters.load_again()

    def stats(self) -> EngineStats:
        """The state after the last step; in a crowd no more may run than are let in then."""
        max_running = self._overload.max_running(self._clock(), self._stats.max_running)
        return self._stats._replace(max_running=max_running)

    def on_report(self, report: Report) -> None:
        """As for any engine; how fast requests begin is learnt beside."""
        num_begun = sum(isinstance(self._opened.get(serial), OpenGeneration) for serial in report.started)
        if num_begun:
            self._queue_wait.began(self._clock(), num_begun)
        super().on_report(report)
        if report.stats:
            self._overload.stepped(self._clock(), self._stats.num_running, self._stats.num_generated_tokens)

    def refuse_if_busy(
        self, caller_id: str, weight: float, deadline: float | None = None, waited_s: float | None = None
    ) -> None:
        """Raise EngineOverloaded if a request of that key would have to wait too long: before it costs anything.

        `waited_s` is for how long it has waited before anybody looked at it, if that is known.
        """
        now = self._clock()
        parts, ages_s = self._parts(caller_id, weight, now)
        crowd_wait_s = self._overload.max_wait_s(now, self._config.max_queue_wait_s)
        max_wait_s = limit_s = self._config.max_queue_wait_s if has_little(caller_id, parts) else crowd_wait_s
        if deadline is not None:
            limit_s = min(limit_s, max(_DEADLINE_PART * (deadline - now), 0.0))
        max_running = self._overload.max_running(now, self._stats.max_running or self._config.max_batch_sequences)
        wait_s = self._queue_wait.wait_s(caller_id, parts, max_running, ages_s)
        if wait_s > max_wait_s:
            self._overload.refused(now)
        # It may be told by anybody who reaches this without Envoy: so it refuses its own request, and makes no crowd.
        if (
            waited_s is not None
            and self._overload.is_late(now, late=waited_s > crowd_wait_s)
            and parts[caller_id].num_open
        ):
            wait_s += waited_s
        if wait_s > limit_s:
            message = f"the request would wait for about {wait_s:.1f} s to begin; the limit is {limit_s:.1f} s"
            raise EngineOverloaded(message, retry_after_s(wait_s - limit_s), for_all=wait_s > max_wait_s)

    @asynccontextmanager
    async def generate(self, *requests: GenerationRequest) -> abc.AsyncIterator[Outputs]:
        """Open the stream of all outputs of one request or several; leaving the context ends what is left of them.

        Several requests are admitted all or none, and an error of one ends the stream of all. Entry returns when all
        are admitted, their constraints compiled.

        On entry raises InvalidRequest or a subclass of it, EngineOverloaded, EngineRestarting, EngineClosed,
        EngineFailed or DeadlineExceeded; the last three, and SequenceError, may also be raised by the stream, after its
        last output.
        """
        self._refuse_if_away(*(request.deadline for request in requests))
        for request in requests:
            self._check(request)
        self._check_room(requests)
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
                    self._quarantine.clear(words_of(request))
            self._leave(*serials)
            stream.close()

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
            self._check_suspicion(request)

    def _check_suspicion(self, request: GenerationRequest) -> None:
        words = words_of(request)
        self._quarantine.check(words, request.prompt_field)
        if request.constraint is not None:
            self._quarantine.check(repr(request.constraint), request.prompt_field)
        if not self._quarantine.must_be_alone(words):
            return
        for each in self._requests():
            if self._quarantine.must_be_alone(words_of(each.request)):
                message = "the engine has failed beside this request, which has to wait for others of which that is so"
                raise EngineOverloaded(message, retry_after_s(self._clock() - each.arrived))

    def _check_room(self, requests: abc.Sequence[GenerationRequest]) -> None:
        for request in requests[:1]:  # those opened together with it count on it alone
            self.refuse_if_busy(request.caller_id, request.weight, request.deadline)
        waiting = [each for each in self._requests() if each.is_waiting]
        if not waiting:
            return  # what is longer than the whole queue may still be served, alone
        num_waiting_tokens = sum(len(each.request.prompt_token_ids) for each in waiting)
        num_tokens = sum(len(request.prompt_token_ids) for request in requests)
        for_all = False
        if len(waiting) + len(requests) > self._config.max_queue_requests:
            message = f"{len(waiting)} requests wait already"
            for_all = len(waiting) >= self._config.max_queue_requests
        elif num_waiting_tokens + num_tokens > self._config.max_queue_tokens:
            message = f"requests with {num_waiting_tokens} prompt tokens wait already"
            for_all = num_waiting_tokens >= self._config.max_queue_tokens
        else:
            return
        raise EngineOverloaded(message, retry_after_s(self._clock() - waiting[0].arrived), for_all=for_all)

    def _parts(self, caller_id: str, weight: float, now: float) -> tuple[dict[str, KeyLoad], list[float]]:
        """What each key has here, that one among them, and for how long each sequence has run."""
        parts = {caller_id: KeyLoad(weight, 0, 0)}
        ages_s: list[float] = []
        for each in self._requests():
            name = each.request.caller_id
            before = parts.get(name, KeyLoad(each.request.weight, 0, 0))
            parts[name] = KeyLoad(
                before.weight, before.num_waiting + each.is_waiting, before.num_running + each.num_running
            )
            ages_s += [now - each.began] * each.num_running
        return parts, ages_s

    def _add(
        self,
        requests: abc.Sequence[GenerationRequest],
        stream: OutputStream,
        constraint_serials: abc.Sequence[int | None],
    ) -> list[int]:
        now = self._clock()
        self._queue_wait.came(now, sum(each.is_waiting for each in self._requests()))
        serials = []
        try:
            for index, (request, constraint_serial) in enumerate(zip(requests, constraint_serials, strict=True)):
                command = partial(
                    Add,
                    # A constraint that is compiled has crossed already.
                    request=replace(request, constraint=None) if request.constraint else request,
                    arrived=now,
                    request_index=index,
                    constraint_serial=constraint_serial,
                )
                serials.append(self._open(OpenGeneration(request, stream, now, self._queue_wait, self._clock), command))
        except BaseException:  # a request that can't cross takes back those before it
            self._leave(*serials)
            raise
        return serials

    async def _add_constrained(self, requests: abc.Sequence[GenerationRequest], stream: OutputStream) -> list[int]:
        """Have the constraints compiled, equal ones once, before any of the requests is added."""
        compiling: list[tuple[Constraint, int, PendingCall]] = []
        try:
            constraint_serials = [
                self._compile(request.constraint, request.caller_id, compiling) if request.constraint else None
                for request in requests
            ]
            deadline = min((each.deadline for each in requests if each.deadline is not None), default=None)
            for constraint, _, pending_call in compiling:
                num_tokens = await self._compiled(constraint, pending_call, deadline)
                for request in requests:
                    if num_tokens and request.constraint == constraint:
                        check_limit(request, num_tokens, max_model_len=self.max_model_len)
            self._refuse_if_away(deadline)
            for request in requests:
                self._adapters.check(request.adapter)  # it may have been unloaded while these were compiled
            self._check_room(requests)  # others came
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

    async def _compiled(self, constraint: Constraint, pending_call: PendingCall, deadline: float | None) -> int | None:
        """Wait for a compilation; return the tokens of the shortest answer, if they are known."""
        busy = EngineOverloaded(
            "the threads that compile constraints are busy with others", retry_after_s(self._max_compile_s)
        )
        await self._within(pending_call.started.wait(), deadline, busy)
        field = constraint.grammar.field if constraint.grammar else "constraint"
        message = f"the constraint took longer than {self._max_compile_s:g} s to compile"
        done = await self._within(pending_call.done, deadline, UnsupportedConstraint(field, message))
        return done.num_tokens if isinstance(done, Compiled) else None

    async def _within(self, work: abc.Awaitable[_Brought], deadline: float | None, too_long: EngineError) -> _Brought:
        """Wait for what may take as long as a compilation. Past that raise `too_long`, past the deadline its error.

        Which of the two is nearer is decided before: a timer may be early, and the clock is no witness then.
        """
        limit_s, error = self._max_compile_s, too_long
        if deadline is not None and deadline - self._clock() < limit_s:
            limit_s = deadline - self._clock()
            error = DeadlineExceeded("the deadline passed before the request was ready to run")
        try:
            async with asyncio.timeout(limit_s):
                return await work
        except TimeoutError:
            raise error from None

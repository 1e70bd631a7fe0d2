"""What an engine's client measures: the time of answers in the engine, and how many requests are in flight."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from service.engine.client.generator import GeneratorClient
from service.engine.interface.in_flight_limit import InFlightLimit
from service.engine.interface.messages import Add, Command, Report
from service.engine.link.link import Receiver
from service.generation.errors import EngineOverloaded
from service.generation.outputs.output import FinishReason, GenerationOutput, Timings
from service.generation.stats import EngineStats
from tests.engine.fakes import Clock, config_of, request

TOKENS = 100  # of an answer
NUM_STEPS = 10
TIMINGS = Timings(0.0, None, None, None)


class SilentLink:
    """A link to a core whose reports the test makes."""

    pid = None
    is_suspended = False
    can_relaunch = False

    def __init__(self) -> None:
        self.serials: list[int] = []  # of the requests, oldest first

    def start(self, receiver: Receiver) -> None: ...

    def send(self, command: Command) -> None:
        if isinstance(command, Add):
            self.serials.append(command.serial)

    def kill(self) -> None: ...

    async def relaunch(self) -> None: ...

    async def stop(self) -> None: ...


class Driven:
    """A client whose clock and reports the test drives."""

    def __init__(self, **sizes: Any) -> None:
        self.clock = Clock()
        self.link = SilentLink()
        config = config_of(**{"max_batch_sequences": 64, "max_queue_wait_s": 2.0, **sizes})
        self.client = GeneratorClient(self.link, config, vocab_size=256, clock=self.clock)
        self.client.start()
        self.readers = AsyncExitStack()  # of all streams
        self._num_slots = config.max_batch_sequences
        self._num_tokens = self._num_steps = 0

    async def open(self, number: int) -> list[int]:
        """Open requests, and return their serials."""
        for _ in range(number):
            await self.readers.enter_async_context(self.client.generate(request("hello", max_tokens=None)))
        return self.link.serials[-number:]

    def step(self, serials: list[int], seconds: float, *, is_first: bool = False, is_last: bool = False) -> None:
        """Report a step that took some time and generated a tenth of each answer."""
        self.clock.now += seconds
        self._num_steps += 1
        self._num_tokens += len(serials) * TOKENS // NUM_STEPS
        tokens = [1] * (TOKENS // NUM_STEPS)
        reason = FinishReason.LENGTH if is_last else None
        output = GenerationOutput(0, tokens, [], "", TIMINGS, len(serials), finish_reason=reason)
        stats = EngineStats(
            num_running=len(serials),
            max_running=self._num_slots,
            num_steps=self._num_steps,
            num_computed_tokens=self._num_tokens,
            num_generated_tokens=self._num_tokens,
        )
        outputs = [(serial, output) for serial in serials]
        self.client.on_report(Report(started=serials if is_first else [], outputs=list(outputs), stats=[stats]))

    async def answer(self, number: int, seconds: float) -> None:
        """Generate answers together, each in some seconds. Their readers stay."""
        serials = await self.open(number)
        for index in range(NUM_STEPS):
            self.step(serials, seconds / NUM_STEPS, is_first=index == 0, is_last=index == NUM_STEPS - 1)

    async def leave(self) -> None:
        """Let all readers leave."""
        await self.readers.aclose()

    async def measure(self) -> InFlightLimit:
        """Generate an answer alone, and many answers together at eight times its rate; return the limit."""
        await self.answer(1, 1.0)
        await self.leave()
        for _ in range(20):
            await self.answer(16, 2.0)
            await self.leave()
        return self.limit

    @property
    def limit(self) -> InFlightLimit:
        limit = self.client.in_flight_limit()
        assert limit is not None
        return limit


async def test_a_reader_that_pauses_does_not_change_the_limit() -> None:
    """An answer's time ends with its last token, however long its reader takes."""
    driven = Driven()
    before = await driven.measure()
    assert before.sustained == 14  # 1.75 times 8
    for _ in range(10):
        await driven.answer(1, 1.0)
        driven.step([], 1.0)  # an idle engine reports every second
        driven.clock.now += 60.0
        await driven.leave()
    assert abs(driven.limit.sustained - before.sustained) <= 1


async def test_complete_answers_are_not_in_flight() -> None:
    """Readers that have not left do not make the rate of one answer the rate of all."""
    driven = Driven()
    before = await driven.measure()
    await driven.answer(16, 2.0)
    for _ in range(30):
        await driven.answer(1, 1.0)
    assert abs(driven.limit.sustained - before.sustained) <= 1
    await driven.leave()


async def test_an_overload_lowers_the_reported_max_running() -> None:
    """As many choices may run as requests may be in flight, by the measured rates of one answer and of all together."""
    driven = Driven(max_batch_sequences=8)
    await driven.answer(1, 1.0)
    await driven.leave()
    driven.step(await driven.open(1), 0.1, is_first=True)
    driven.clock.now += 20.0
    await driven.open(7)
    assert driven.client.stats().max_running == 8
    with pytest.raises(EngineOverloaded):
        driven.client.reject_if_overloaded("", 1.0)
    assert driven.client.stats().max_running == driven.limit.sustained == 2
    driven.clock.now += 2.0
    assert driven.client.stats().max_running == 8
    await driven.leave()


async def test_a_request_that_is_checked_early_arrives_once() -> None:
    """A queue for which 0.86 requests arrive for each one that begins is no overload, however often each is checked."""
    driven = Driven(max_batch_sequences=4, max_queue_wait_s=30.0)
    await driven.answer(1, 1.0)
    await driven.leave()
    running = await driven.open(4)
    driven.step(running, 0.1, is_first=True)
    waiting = await driven.open(60)
    for tick in range(60):
        if tick % 7:
            driven.client.reject_if_overloaded("", 1.0)
            waiting += await driven.open(1)
        driven.step([running.pop(0)], 0.05, is_last=True)
        running.append(waiting.pop(0))
        driven.step(running[-1:], 0.05, is_first=True)
        assert not driven.limit.is_overloaded
    await driven.leave()

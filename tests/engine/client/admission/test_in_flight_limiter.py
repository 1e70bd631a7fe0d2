"""The limit of requests in flight that an engine computes from measurements."""

import math
import random

import pytest

from service.engine.client.admission.in_flight_limiter import InFlightLimiter

SLOTS = 64
SLOWDOWN = 3.0


class SharedServer:
    """A simulated server whose answers share its time: one alone takes `alone_s`; at most `max_rate` end a second."""

    def __init__(self, alone_s: float, max_rate: float, tokens: int, max_step_s: float = 0.05) -> None:
        self.tokens = tokens
        self._max_step_s = max_step_s
        self._alone_s = alone_s
        self.max_rate = max_rate
        self.now = 0.0
        self._left: list[float] = []  # of each answer, as a part of the whole
        self._began: list[float] = []
        self.durations: list[float] = []
        self.generated = 0.0

    def run(self, limiter: InFlightLimiter, num_in_flight: int, seconds: float) -> None:
        """Keep a number of answers in flight, and let the limiter measure them."""
        end = self.now + seconds
        while self.now < end:
            while len(self._left) < num_in_flight:
                self._left.append(1.0)
                self._began.append(self.now)
            rate = min(1 / self._alone_s, self.max_rate / len(self._left))  # of each answer
            step_s = min(min(self._left) / rate, self._max_step_s)
            self.now += step_s
            self.generated += rate * step_s * len(self._left) * self.tokens
            self._left = [each - rate * step_s for each in self._left]
            limiter.record_step(self.now, len(self._left), int(self.generated))
            for index in reversed(range(len(self._left))):
                if self._left[index] <= 1e-9:
                    del self._left[index]
                    self.durations.append(self.now - self._began.pop(index))
                    limiter.record_answer(self.tokens, self.durations[-1])


def test_no_limit_before_a_measurement() -> None:
    """Without measurements, and without answers, there is no limit."""
    limiter = InFlightLimiter(SLOTS, SLOWDOWN)
    assert limiter.limit(2.0, is_overloaded=False) is None
    limiter.record_step(0.0, 1, 0)
    limiter.record_step(1.0, 1, 100)
    assert limiter.limit(2.0, is_overloaded=False) is None
    limiter.record_answer(0, 1.0)
    assert limiter.limit(2.0, is_overloaded=False) is None
    limiter.record_answer(100, 1.0)
    assert limiter.limit(2.0, is_overloaded=False) == (3, SLOTS + 2, False, 1.0)


def test_measurements_hold_while_the_engine_is_idle() -> None:
    """The first burst after a day without requests has the limit of the last one; a slower load replaces it."""
    limiter = InFlightLimiter(SLOTS, SLOWDOWN)
    for now, work in ((0.0, 0), (1.0, 1000)):
        limiter.record_step(now, 1, work)
    limiter.record_answer(100, 1.0)
    before = limiter.limit(2.0, is_overloaded=False)
    limiter.record_step(1.1, 0, 1000)
    limiter.record_step(86_400.0, SLOTS, 1000)
    assert limiter.limit(2.0, is_overloaded=False) == before
    for second in range(1, 400):
        limiter.record_step(86_400.0 + second, SLOTS, 1000 + 100 * second)
    limiter.record_answer(100, 1.0)
    assert limiter.limit(2.0, is_overloaded=False) == (3, SLOTS + 2, False, 1.0)


@pytest.mark.parametrize("num_in_flight", [1, 3, None])
@pytest.mark.parametrize("seed", range(3))
def test_a_load_leaves_the_limit_of_the_next(seed: int, num_in_flight: int | None) -> None:
    """After half an hour of few requests, or of an overload (None), the limit is the same, but for one request."""
    draw = random.Random(seed)
    alone_s = draw.uniform(0.5, 5.0)
    server = SharedServer(alone_s, draw.uniform(2.0, 15.0) / alone_s, 100, max_step_s=1.0)
    limiter = InFlightLimiter(SLOTS, SLOWDOWN)
    for number in (1, SLOTS):
        server.run(limiter, number, 4 * alone_s + 30.0)
    before = limiter.limit(2.0, is_overloaded=False)
    assert before is not None
    server.run(limiter, num_in_flight or before.sustained, 1800)
    after = limiter.limit(2.0, is_overloaded=False)
    assert after is not None
    assert abs(after.sustained - before.sustained) <= 1


def test_a_single_fast_answer_hardly_changes_the_limit() -> None:
    """Whether it ran alone or not: on a shared machine some answers are twice as fast as the others."""
    limiter = InFlightLimiter(SLOTS, SLOWDOWN)
    for second in range(60):
        limiter.record_step(float(second), 1 if second < 30 else SLOTS, 1000.0 * second)
        if second < 30:
            limiter.record_answer(100, 1.0)
    limiter.record_answer(100, 0.5)
    limit = limiter.limit(2.0, is_overloaded=False)
    assert limit is not None
    assert 27 <= limit.sustained <= 30


def test_an_infinite_wait() -> None:
    """The limit is finite even if requests may wait for ever."""
    limiter = InFlightLimiter(SLOTS, SLOWDOWN)
    for now, num_tokens in ((0.0, 0), (1.0, 100)):
        limiter.record_step(now, 1, num_tokens)
    limiter.record_answer(100, 1.0)
    limit = limiter.limit(math.inf, is_overloaded=False)
    assert limit is not None
    assert limit.burst > 100_000


@pytest.mark.parametrize("seed", range(200))
def test_answers_take_the_chosen_multiple_of_their_time_alone(seed: int) -> None:
    """With the sustained number in flight, an answer takes at most `slowdown` times as long as alone.

    At least nine tenths of the highest rate are kept. The server's speed and rate and the answers' length are random.
    """
    draw = random.Random(seed)
    alone_s = draw.uniform(0.02, 5.0)
    server = SharedServer(alone_s, draw.uniform(1.5, 15.0) / alone_s, draw.randint(1, 500))
    limiter = InFlightLimiter(SLOTS, SLOWDOWN)
    for number in (1, SLOTS):
        server.run(limiter, number, 4 * alone_s + 2.0)
    limit = limiter.limit(2.0, is_overloaded=False)
    assert limit is not None
    server.run(limiter, limit.sustained, SLOTS * alone_s)  # until the burst has ended
    server.durations.clear()
    server.run(limiter, limit.sustained, 40 * alone_s)
    assert max(server.durations) <= (SLOWDOWN + 0.5) * alone_s  # the limit is rounded to whole requests
    assert len(server.durations) >= 0.9 * 40 * alone_s * server.max_rate


@pytest.mark.parametrize("seed", range(20))
def test_a_start_under_load_has_the_limit_of_measured_steps(seed: int) -> None:
    """Until an answer has run alone, its speed is that of a step with one sequence; then the measured one."""
    draw = random.Random(seed)
    alone_s = draw.uniform(0.5, 5.0)
    server = SharedServer(alone_s, draw.uniform(2.0, 15.0) / alone_s, 100, max_step_s=1.0)
    limiter = InFlightLimiter(SLOTS, SLOWDOWN)
    server.run(limiter, SLOTS, 40 * alone_s)
    unknown = limiter.limit(2.0, is_overloaded=True)
    assert unknown is not None
    limiter.record_step(server.now, SLOTS, server.generated, decode_step_s=alone_s / 100)
    started = limiter.limit(2.0, is_overloaded=True)
    assert started is not None
    assert started.sustained == pytest.approx(SLOWDOWN * server.max_rate * alone_s, rel=0.1, abs=1)
    assert started.sustained < unknown.sustained
    server.run(limiter, 1, SLOTS / server.max_rate + 8 * alone_s)  # after those in flight have ended
    alone = limiter.limit(2.0, is_overloaded=True)
    assert alone is not None
    assert abs(alone.sustained - started.sustained) <= 1

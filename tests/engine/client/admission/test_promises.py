"""The promises of service levels, against a simulated engine with random arrivals and service times."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import pytest

from service.engine.client.admission.promises import Promise, Rates, shortage_s

RATES = Rates(step_s=0.010, row_s=0.001, prompt_token_s=0.0002)


@dataclass
class Work:
    """An admitted request of the simulated engine: what is left of it."""

    due: float
    num_prompt_tokens: float
    token_s: float
    ends: float = math.inf  # set when it begins to decode

    @property
    def decodes(self) -> bool:
        return self.num_prompt_tokens <= 0

    def promise(self) -> Promise:
        return Promise(math.inf if self.decodes else self.due, max(self.num_prompt_tokens, 0.0), self.token_s, 1)


class SimulatedEngine:
    """Decodes all rows at the pace of the strictest limit, and computes prompts in the time that is left.

    The first due prompt is first. Prompts take up to 5 % more or less time than expected.
    """

    def __init__(self, draw: random.Random) -> None:
        self.now = 0.0
        self.works: list[Work] = []
        self.num_late = 0
        self._draw = draw

    def admits(self, new: Work) -> bool:
        promises = [work.promise() for work in (*self.works, new)]
        if shortage_s(promises, RATES, self.now) > 0:
            return False
        self.works.append(new)
        return True

    def run_until(self, until: float) -> None:
        """Serve up to an instant, from event to event: the end of a prompt or of an answer."""
        while self.now < until:
            rows = [work for work in self.works if work.decodes]
            share = 0.0
            if rows:
                strictest_s = min(work.token_s for work in rows)
                seconds = RATES.decode_s(sum(strictest_s / work.token_s for work in rows))
                self.num_late += seconds > strictest_s
                share = seconds / strictest_s
            first = min((work for work in self.works if not work.decodes), key=lambda work: work.due, default=None)
            token_s = self._draw.uniform(0.95, 1.05) * RATES.prompt_token_s / max(1 - share, 1e-9)
            prompt_ends = self.now + first.num_prompt_tokens * token_s if first else math.inf
            before, self.now = self.now, min(prompt_ends, until, *(work.ends for work in rows))
            if first and self.now == prompt_ends:
                first.num_prompt_tokens = 0.0
                first.ends = self.now + self._draw.expovariate(2.0)
                self.num_late += self.now > first.due
            elif first:
                first.num_prompt_tokens -= (self.now - before) / token_s
            self.works = [work for work in self.works if work.ends > self.now]


def run(seed: int) -> tuple[int, int, int]:
    """Return the numbers of admitted and rejected requests, and of late tokens."""
    draw = random.Random(seed)
    engine = SimulatedEngine(draw)
    rate = draw.choice([5.0, 20.0, 100.0])
    num_admitted = 0
    for _ in range(8):
        engine.run_until(engine.now + draw.expovariate(rate))
        due = engine.now + draw.choice([0.2, 0.5, 2.0])
        new = Work(due, float(draw.randint(10, 1500)), draw.choice([0.025, 0.05, 0.2, math.inf]))
        num_admitted += engine.admits(new)
    engine.run_until(engine.now + 10)
    return num_admitted, 8 - num_admitted, engine.num_late


def test_no_promise_is_broken() -> None:
    """Over 2,000 seeds, the rates suffice for every token of every admitted request, and many are rejected."""
    outcomes = [run(seed) for seed in range(2000)]
    assert [seed for seed, (_, _, num_late) in enumerate(outcomes) if num_late] == []
    assert sum(admitted for admitted, _, _ in outcomes) > 4000
    assert sum(rejected for _, rejected, _ in outcomes) > 4000


def test_shortage_is_the_delay_of_the_first_token() -> None:
    """Two prompts that together take 1.9 s, with a reserve of 5 %, would be late if both are due in 1.5 s."""
    rates = Rates(0.0, 0.0, 0.001)
    prompts = [Promise(11.5, 900.0, math.inf, 1)] * 2
    assert shortage_s(prompts[:1], rates, 10.0) == 0
    assert shortage_s(prompts, rates, 10.0) == pytest.approx(2 * 0.9 / 0.95 - 1.5)


def test_rows_of_looser_limits_count_less() -> None:
    """Ten rows with 40 ms per token and one with 20 ms are six rows per step of 20 ms."""
    strict, loose = Promise(math.inf, 0.0, 0.020, 1), Promise(math.inf, 0.0, 0.040, 10)
    assert shortage_s([strict, loose], Rates(0.010, 0.0015, 0.0), 0.0) == 0
    assert shortage_s([strict, loose], Rates(0.010, 0.0019, 0.0), 0.0) == math.inf


def test_without_measurements_every_promise_is_accepted() -> None:
    """If nothing was measured, nothing is short."""
    assert shortage_s([Promise(1.0, 1e6, 1e-6, 100)], Rates(0.0, 0.0, 0.0), 0.0) == 0

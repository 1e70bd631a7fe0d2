"""Synthetic traffic: conversations with shared system prompts, hot keys, bursts and a daily rhythm.

Lengths are lognormal and popularity follows Zipf's law, as in public traces of chats (Azure's of 2023 and 2024,
Mooncake's, BurstGPT). The parameters are settings and not taken from a particular trace.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from bench.fleet.simulated.job import Job

_HOT = 1 << 40  # keys of hot prompts begin here


@dataclass(frozen=True)
class Traffic:
    """The parameters of traffic. Times in seconds, lengths in tokens; means are those of the lognormal distribution."""

    conversations_per_s: float
    duration_s: float
    turns: float = 4.0  # of a conversation, on average; geometric
    think_s: float = 15.0  # between an answer's end and the next question; exponential
    question: float = 120.0
    answer: float = 180.0
    sigma: float = 0.8  # standard deviation of the logarithm of both
    longest: int = 2048
    system_prompts: int = 40
    system_prompt: int = 900
    zipf: float = 1.1
    hot_per_s: float = 0.0  # calls that share one long prompt and a key, in addition to the conversations
    hot_prompt: int = 3000
    burst_every_s: float = 0.0  # 0: no bursts
    burst_calls: int = 0  # conversations that begin at once in each
    day_s: float = 0.0  # length of a day, over which the rate goes from `night` times the mean up and back; 0: constant
    night: float = 0.25

    def rate(self, at: float) -> float:
        """Return the conversations that begin per second at time `at`; a day begins at night."""
        if not self.day_s:
            return self.conversations_per_s
        wave = 1 - (1 - self.night) * math.cos(2 * math.pi * at / self.day_s)
        return self.conversations_per_s * wave


class Source:
    """Generates the traffic: first turns by time, and each later turn when the previous answer has ended.

    A conversation's requests don't depend on other conversations, so that all balancers get the same requests.
    """

    def __init__(self, traffic: Traffic, seed: int) -> None:
        self.traffic = traffic
        self._seed = seed
        ranks = np.arange(1, traffic.system_prompts + 1, dtype=float) ** -traffic.zipf
        self._popularity = np.cumsum(ranks / ranks.sum()).tolist()
        self._num_conversations = 0
        self._draws: dict[int, random.Random] = {}  # of the active conversations

    def first_turns(self) -> Iterator[Job]:
        """Return jobs in the order of arrival: a Poisson process thinned to the rate, bursts, and hot calls."""
        return heapq.merge(self._conversations(), self._bursts(), self._hot(), key=attrgetter("arrived"))

    def next_turn(self, job: Job) -> Job | None:
        """Return the next turn after an answer, or None if the conversation ends or the job was rejected."""
        traffic, draw = self.traffic, self._draws.pop(job.own_key, None)
        if draw is None or job.refused or draw.random() < 1 / traffic.turns:
            return None
        arrived = job.ended + draw.expovariate(1 / traffic.think_s)
        own = job.own + job.answer + self._length(draw, traffic.question)
        if arrived >= traffic.duration_s or job.shared + own > 4 * traffic.longest:
            return None
        self._draws[job.own_key] = draw
        answer = self._length(draw, traffic.answer)
        return Job(arrived, job.shared_key, job.shared, job.own_key, own, answer, job.route_key, job.turn + 1)

    def _conversation(self, at: float) -> Job:
        self._num_conversations += 1
        number, traffic = self._num_conversations, self.traffic
        draw = self._draws[number] = random.Random(f"{self._seed} {number}")
        system = bisect(self._popularity, draw.random())
        question, answer = self._length(draw, traffic.question), self._length(draw, traffic.answer)
        return Job(at, system, traffic.system_prompt, number, question, answer, number)

    def _conversations(self) -> Iterator[Job]:
        traffic, at = self.traffic, 0.0
        draw = random.Random(f"{self._seed} arrivals")
        most = traffic.conversations_per_s * (2 if traffic.day_s else 1)
        while most:
            at += draw.expovariate(most)
            if at >= traffic.duration_s:
                return
            if draw.random() * most < traffic.rate(at):
                yield self._conversation(at)

    def _bursts(self) -> Iterator[Job]:
        traffic = self.traffic
        at = traffic.burst_every_s
        while at and at < traffic.duration_s:
            for _ in range(traffic.burst_calls):
                yield self._conversation(at)
            at += traffic.burst_every_s

    def _hot(self) -> Iterator[Job]:
        traffic, at, number = self.traffic, 0.0, _HOT
        draw = random.Random(f"{self._seed} hot")
        while traffic.hot_per_s:
            at += draw.expovariate(traffic.hot_per_s)
            if at >= traffic.duration_s:
                return
            number += 1
            question, answer = self._length(draw, traffic.question), self._length(draw, traffic.answer)
            yield Job(at, _HOT, traffic.hot_prompt, number, question, answer, _HOT)

    def _length(self, draw: random.Random, mean: float) -> int:
        sigma = self.traffic.sigma
        length = mean * math.exp(sigma * draw.gauss(0, 1) - sigma * sigma / 2)
        return min(max(int(length), 1), self.traffic.longest)

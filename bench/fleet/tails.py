"""The scenario of normal load and overload: one replica with the product's admission, at multiples of its capacity."""

from __future__ import annotations

import asyncio
import math
import random
import statistics
from collections import abc
from typing import NamedTuple

from bench.fleet.simulated.admitted_replica import AdmittedReplica, Chat
from bench.fleet.simulated.step_model import StepModel

LATE = 2.0  # an answer, or a first token, is late after this multiple of its time on an idle replica
_NUM_CALLERS = 32  # closed-loop callers that measure the capacity
_LEAD_IN_S = 6.0
_ANSWER = 100  # tokens on average


class Mix(NamedTuple):
    """The prompts of a load: `short` and `long` tokens, and the part of the long ones."""

    name: str
    short: int
    long: int
    part: float


MIXES = (Mix("short", 40, 40, 0.0), Mix("a tenth of 512", 40, 512, 0.1))


def make_chat(draw: random.Random, mix: Mix, arrived: float) -> Chat:
    """Return a chat with a random prompt and an answer of exponential length."""
    prompt = mix.long if draw.random() < mix.part else mix.short
    return Chat(arrived, prompt, max(2, min(round(draw.expovariate(1 / _ANSWER)), 8 * _ANSWER)))


def arrivals(mix: Mix, rate: float, duration_s: float, seed: int) -> list[Chat]:
    """Return chats that arrive at random times."""
    draw = random.Random(seed)
    chats, now = [], draw.expovariate(rate)
    while now < duration_s:
        chats.append(make_chat(draw, mix, now))
        now += draw.expovariate(rate)
    return chats


async def closed_loop(replica: AdmittedReplica, mix: Mix, callers: int, duration_s: float, seed: int) -> list[Chat]:
    """Serve callers that ask again at once; return their chats. A rejected caller asks again after 0.1 s."""
    draw = random.Random(seed)
    until = replica.now + duration_s
    chats: list[Chat] = [make_chat(draw, mix, 0.0) for _ in range(callers)]
    every = list(chats)

    def then(chat: Chat) -> Chat | None:
        at = chat.ended if chat.ended < math.inf else chat.rejected + 0.1
        if at >= until:
            return None
        every.append(make_chat(draw, mix, at))
        return every[-1]

    await replica.run(chats, then)
    return every


class Unloaded:
    """The times of answers on an idle replica."""

    def __init__(self, model: StepModel) -> None:
        self._model = model

    def first_s(self, chat: Chat) -> float:
        """Return the time to the first token."""
        return self._model.seconds(0, chat.prompt)

    def whole_s(self, chat: Chat) -> float:
        """Return the time of the answer."""
        return self.first_s(chat) + (chat.answer - 1) * self._model.seconds(1, 0, chat.prompt + chat.answer / 2)


async def capacity(model: StepModel, mix: Mix, seed: int) -> float:
    """Return the complete answers per second of closed-loop callers."""
    replica = AdmittedReplica(model)
    chats = await closed_loop(replica, mix, _NUM_CALLERS, 30.0, seed)
    return sum(5.0 <= chat.ended < 30.0 for chat in chats) / 25.0


def figures(model: StepModel, chats: abc.Sequence[Chat], began: float, seconds: float) -> dict[str, str | float]:
    """Return the figures of the chats that arrived from `began` on for `seconds`; `whole` are those that ended then."""
    unloaded = Unloaded(model)
    counted = [chat for chat in chats if began <= chat.arrived < began + seconds]
    whole = [chat for chat in counted if chat.ended < math.inf]
    in_time = [chat for chat in whole if chat.ended - chat.arrived <= LATE * unloaded.whole_s(chat)]
    row: dict[str, str | float] = {
        "per second": len(counted) / seconds,
        "whole": sum(began <= chat.ended < began + seconds for chat in chats) / seconds,
        "in time": len(in_time) / seconds,
        "rejected": sum(chat.rejected < math.inf for chat in counted) / seconds,
        "longest wait, s": max((chat.first_token - chat.arrived for chat in whole), default=0.0),
    }
    longest = max(chat.prompt for chat in counted)
    for name, is_long in (("short", False), ("long", True)):
        ratios = [
            (chat.first_token - chat.arrived) / unloaded.first_s(chat)
            for chat in whole
            if (chat.prompt == longest and longest > 100) == is_long
        ]
        row[f"first token, {name}, 95 %"] = statistics.quantiles(ratios, n=20)[-1] if len(ratios) > 1 else 0.0
    return row


def tail_rows(
    model: StepModel, seed: int, loads: abc.Sequence[float], mixes: abc.Sequence[Mix] = MIXES, duration_s: float = 60.0
) -> list[dict[str, str | float]]:
    """Return the figures at each load, as a multiple of the capacity, for each mix of prompts."""
    rows = []
    for mix in mixes:
        rate = asyncio.run(capacity(model, mix, seed))
        for load in loads:
            chats = arrivals(mix, load * rate, _LEAD_IN_S + duration_s, seed)
            asyncio.run(_serve(model, mix, chats, seed))
            rows.append({"prompts": mix.name, "load": load, **figures(model, chats, _start(chats), duration_s)})
    return rows


def _start(chats: abc.Sequence[Chat]) -> float:
    return chats[0].arrived + _LEAD_IN_S


async def _serve(model: StepModel, mix: Mix, chats: list[Chat], seed: int) -> None:
    """Serve chats on a replica that has learned its rates: from an answer alone, and from callers that come back."""
    replica = AdmittedReplica(model)
    await replica.run([Chat(0.0, mix.short, _ANSWER)])
    await closed_loop(replica, mix, _NUM_CALLERS, 5.0, seed)
    await replica.run(chats)

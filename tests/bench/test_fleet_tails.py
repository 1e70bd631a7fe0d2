"""One simulated replica with the product's admission and nothing in front of it, at multiples of its capacity."""

from __future__ import annotations

import asyncio
import math

import pytest

from bench.fleet.simulated.admitted_replica import AdmittedReplica, Chat
from bench.fleet.simulated.step_model import CPU_EXAMPLE, StepModel, StepTable
from bench.fleet.tails import MIXES, arrivals, capacity, closed_loop, figures, tail_rows

# A step of n sequences takes 10 + n ms, a prompt of n tokens 10 ms and 0.1 ms each.
MODEL = StepModel(StepTable("hand", ((1, 0.011), (101, 0.111)), ((1, 0.0101), (2001, 0.2101)), num_blocks=4000))


def test_a_chat_takes_the_time_of_its_steps() -> None:
    """A prompt of 100 tokens takes 20 ms, and four more tokens take 11 ms each."""

    async def serve() -> Chat:
        chat = Chat(1.0, 100, 5)
        await AdmittedReplica(MODEL).run([chat])
        return chat

    chat = asyncio.run(serve())
    assert chat.first_token - chat.arrived == pytest.approx(0.020)
    assert chat.ended - chat.arrived == pytest.approx(0.020 + 4 * 0.011)
    assert chat.rejected == math.inf


@pytest.mark.slow
@pytest.mark.parametrize("load", [2.0, 8.0])
def test_the_service_holds_an_overload_without_envoy(load: float) -> None:
    """At least nine tenths of the capacity are whole answers, and no admitted request waits for seconds."""
    model, mix = StepModel(CPU_EXAMPLE), MIXES[0]
    (row,) = tail_rows(model, 1, [load], [mix], 30.0)
    assert float(row["whole"]) >= 0.9 * asyncio.run(capacity(model, mix, 1))
    assert float(row["longest wait, s"]) <= 3.0


@pytest.mark.slow
def test_many_keys_are_limited_like_one() -> None:
    """An overload by keys with one or two requests each neither makes requests wait for seconds nor fills all slots."""

    async def serve() -> list[Chat]:
        replica = AdmittedReplica(StepModel(CPU_EXAMPLE))
        await replica.run([Chat(0.0, 40, 100)])
        await closed_loop(replica, MIXES[0], 32, 5.0, 1)
        chats = arrivals(MIXES[0], 24.0, 26.0, 1)
        for index, chat in enumerate(chats):
            chat.key = f"{index % 400}"
        await replica.run(chats)
        return chats

    chats = asyncio.run(serve())
    row = figures(StepModel(CPU_EXAMPLE), chats, chats[0].arrived + 6.0, 20.0)
    assert float(row["longest wait, s"]) <= 2.0
    assert float(row["whole"]) >= 4.0


@pytest.mark.slow
def test_short_prompts_do_not_wait_for_long_ones() -> None:
    """At 0.8 of the capacity nothing is rejected, and prompts of 512 tokens do not delay those of 40 tenfold."""
    (row,) = tail_rows(StepModel(CPU_EXAMPLE), 1, [0.8], MIXES[1:], 60.0)
    assert row["rejected"] == 0
    assert float(row["first token, short, 95 %"]) <= 7
    assert float(row["first token, long, 95 %"]) <= 4

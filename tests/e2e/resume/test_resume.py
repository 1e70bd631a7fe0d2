"""Streams of every kind that are cut anywhere and resumed, over gRPC through Envoy."""

from __future__ import annotations

import asyncio
import random

import grpc.aio
import pytest

from tests.e2e.cut_streams import KINDS, CutKind, resumed
from tests.e2e.stack import Stack

NUM_REQUESTS, NUM_CUTS = 8, 4


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
async def test_stream_cut_anywhere_resumes_exactly(stack: Stack, kind: CutKind) -> None:
    """Random requests with tools, constraints, stop strings, penalties, logprobs and choices resume concurrently."""
    draw = random.Random(kind.name)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:

        async def check(request: object, cuts: list[float]) -> None:
            events = [event async for event in kind.read(channel, request)]
            assert events[0].stream
            for cut in cuts:
                received = events[: 1 + int(cut * len(events))]
                # The number of cached tokens is known once a prompt has started.
                cached = cut > 0.3
                expected = kind.whole(events, cached=cached)
                rest = [event async for event in kind.read(channel, resumed(request, received))]
                joined = received + rest
                assert [event.sequence_number for event in joined] == list(range(len(joined)))
                assert kind.whole(joined, cached=cached) == expected
                again = [event async for event in kind.read(channel, resumed(request, received, replay=True))]
                rest = [event for event in again if event.sequence_number > received[-1].sequence_number]
                assert kind.whole(again, cached=cached) == expected
                assert kind.whole(received + rest, cached=cached) == expected

        await asyncio.gather(
            *(check(kind.ask(draw, 48), [draw.random() for _ in range(NUM_CUTS)]) for _ in range(NUM_REQUESTS))
        )
    stack.until_idle()

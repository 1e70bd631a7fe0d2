"""VllmEngine/SubscribeKvEvents on a real server: whose blocks it reports, its errors and its end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
from sluice.vllm import engine_pb2

from tests.engine.paged_runner import BLOCK_SIZE
from tests.service.fakes import Running, rejection_of, running
from tests.service.interceptors.guarded import bearing, guarded
from tests.service.servicers.vllm.test_generate import answers, request_of, stub_of

PROMPT = list(b"what the router has sent")


async def subscribed(run: Running, number: int = 0, **call: Any) -> tuple[Any, engine_pb2.KvEventBatch]:
    """Return a subscription, and its first batch."""
    stream = stub_of(run).SubscribeKvEvents(engine_pb2.SubscribeKvEventsRequest(start_sequence_number=number), **call)
    return stream, await stream.read()


async def generate(run: Running, prompt: list[int] = PROMPT, **call: Any) -> None:
    await answers(run, request_of(tokenized={"input_ids": prompt}, max_tokens=1), **call)


def prefix(stored: engine_pb2.KvBlocksStored) -> list[int]:
    """Return the tokens of blocks."""
    assert all(len(each.token_ids) == each.block_size == BLOCK_SIZE for each in stored.blocks)
    return [token_id for each in stored.blocks for token_id in each.token_ids]


async def test_the_tokens_of_stored_blocks_are_those_that_the_client_has_sent() -> None:
    async with running() as run:
        stream, state = await subscribed(run)
        assert state.events[0].HasField("cleared")
        assert (state.snapshot.count, state.snapshot.blocks) == (1, 0)
        await generate(run)
        first = await stream.read()
        await generate(run, [*PROMPT, *b"+and more"])
        second = await stream.read()
        assert [first.sequence_number, second.sequence_number] == [state.sequence_number + 1, state.sequence_number + 2]
        (one,), (two,) = first.events, second.events
        assert 0 < one.event_id < two.event_id
        assert prefix(one.stored) == PROMPT
        assert not one.stored.HasField("parent_block_hash")
        assert two.stored.parent_block_hash == one.stored.blocks[-1].block_hash
        assert prefix(two.stored) == list(b"+and mor")
        stream.cancel()
        again, resumed = await subscribed(run, second.sequence_number)
        assert resumed == second
        again.cancel()


async def test_a_key_has_no_events_of_other_keys_that_share_its_cache(tmp_path: Path) -> None:
    """Not even hashes, which would confirm a guess."""
    group = {"cache_group": "team"}
    async with guarded(tmp_path / "keys.yaml", mine=group, theirs=group, embedder={"scopes": ["embed"]}) as (run, keys):
        stream, _ = await subscribed(run, metadata=bearing(keys["mine"]))
        await generate(run, list(b"a secret of theirs."), metadata=bearing(keys["theirs"]))
        await generate(run, metadata=bearing(keys["mine"]))
        (event,) = (await stream.read()).events
        assert prefix(event.stored) == PROMPT
        stream.cancel()
        request = engine_pb2.SubscribeKvEventsRequest()
        rejected = stub_of(run).SubscribeKvEvents(request, metadata=bearing(keys["embedder"]))
        assert (await rejection_of(rejected)).code is grpc.StatusCode.PERMISSION_DENIED


async def test_a_number_that_is_not_kept_is_data_loss() -> None:
    async with running() as run:
        request = engine_pb2.SubscribeKvEventsRequest(start_sequence_number=7)
        rejected = await rejection_of(stub_of(run).SubscribeKvEvents(request))
        assert (rejected.code, rejected.info.reason) == (grpc.StatusCode.DATA_LOSS, "CACHE_EVENTS_LOST")


async def test_a_service_that_leaves_ends_subscriptions_and_does_not_wait_for_them() -> None:
    async with running() as run:
        stream, _ = await subscribed(run)
        reading = asyncio.ensure_future(rejection_of(stream))
        await run.server.drain()
        ended = await reading
        assert (ended.code, ended.info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")

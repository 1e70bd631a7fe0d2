"""Events of a prefix cache in the form of vLLM's engine service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sluice.vllm import engine_pb2

from service.engine.interface.cache_events import BlocksRemoved, BlocksStored, CacheBatch, CacheEvent

_MAX_EVENTS: Final = 1 << 16  # of a batch


def batch_message(batch: CacheBatch) -> engine_pb2.KvEventBatch:
    """Return the message of a batch."""
    message = engine_pb2.KvEventBatch(
        sequence_number=batch.number, timestamp=batch.time_ns / 1e9, events=map(_event, batch.events), dp_rank=0
    )
    if batch.num_parts:
        message.snapshot.CopyFrom(
            engine_pb2.KvSnapshotChunk(index=batch.part, count=batch.num_parts, blocks=batch.num_blocks)
        )
        return message
    for index, event in enumerate(message.events):
        event.event_id = batch.number * _MAX_EVENTS + index
    return message


def _event(event: CacheEvent) -> engine_pb2.KvCacheEvent:
    match event:
        case BlocksStored():
            stored = engine_pb2.KvBlocksStored(blocks=_blocks(event), parent_block_hash=event.parent)
            if event.adapter:
                stored.lora_name = event.adapter
            if event.cache_salt:
                stored.cache_salt = event.cache_salt
            return engine_pb2.KvCacheEvent(stored=stored)
        case BlocksRemoved():
            return engine_pb2.KvCacheEvent(removed=engine_pb2.KvBlocksRemoved(block_hashes=event.hashes))
    return engine_pb2.KvCacheEvent(cleared=engine_pb2.KvCacheCleared())


def _blocks(event: BlocksStored) -> Iterable[engine_pb2.KvBlock]:
    size = len(event.token_ids) // len(event.hashes)
    for index, block_hash in enumerate(event.hashes):
        token_ids = event.token_ids[index * size : (index + 1) * size]
        yield engine_pb2.KvBlock(block_hash=block_hash, token_ids=token_ids, block_size=size)

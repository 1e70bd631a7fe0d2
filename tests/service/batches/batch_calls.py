"""Calls that create, read and end batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format
from sluice.v1 import batch_pb2, batch_pb2_grpc, chat_pb2

from tests.service.fakes import MODEL, Running
from tests.waiting import GUARD_S

Batch = batch_pb2.Batch
Line = batch_pb2.BatchLine
Result = batch_pb2.StreamBatchResultsResponse
IN_PROGRESS = batch_pb2.BATCH_STATUS_IN_PROGRESS
COMPLETED = batch_pb2.BATCH_STATUS_COMPLETED
EXPIRED = batch_pb2.BATCH_STATUS_EXPIRED
CANCELLED = batch_pb2.BATCH_STATUS_CANCELLED


def stub_of(run: Running) -> Any:
    return batch_pb2_grpc.BatchServiceStub(run.channel)


def chat_line(custom_id: str, text: str = "hi", **fields: Any) -> Line:
    """Return a line with a chat."""
    message = {"role": "ROLE_USER", "content": [{"text": text}]}
    chat = json_format.ParseDict({"model": MODEL, "messages": [message], **fields}, chat_pb2.ChatRequest())
    return Line(custom_id=custom_id, client_data=custom_id.encode(), chat=chat)


def messages(lines: Sequence[Line], **description: Any) -> list[batch_pb2.CreateBatchRequest]:
    """Return the messages that create a batch."""
    return [
        batch_pb2.CreateBatchRequest(description=batch_pb2.BatchDescription(**description)),
        batch_pb2.CreateBatchRequest(requests=batch_pb2.BatchLines(lines=lines)),
    ]


async def create(run: Running, lines: Sequence[Line], **description: Any) -> Batch:
    created: Batch = (await stub_of(run).CreateBatch(iter(messages(lines, **description)))).batch
    return created


async def get(run: Running, batch_id: str) -> Batch:
    found: Batch = (await stub_of(run).GetBatch(batch_pb2.GetBatchRequest(id=batch_id))).batch
    return found


async def ended(run: Running, batch_id: str) -> Batch:
    """Return a batch as soon as it has ended."""
    async with asyncio.timeout(GUARD_S):
        while (batch := await get(run, batch_id)).status == IN_PROGRESS:  # noqa: ASYNC110  as clients do
            await asyncio.sleep(0.01)  # a client polls
    return batch


async def results(run: Running, batch_id: str, outcome: Any = None) -> list[Result]:
    """Return the results of a batch so far, by default all."""
    request = batch_pb2.StreamBatchResultsRequest(id=batch_id, outcome=outcome)
    return [result async for result in stub_of(run).StreamBatchResults(request)]


def text_of(result: Result) -> str:
    return result.chat.choices[0].message.content[0].text

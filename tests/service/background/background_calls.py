"""Calls that create, read, follow and cancel responses in the background."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import grpc
from sluice.v1 import response_event_pb2, response_item_pb2, stored_response_pb2

from tests.service.fakes import Running
from tests.service.servicers.responses.test_response import response_request, stub_of
from tests.waiting import GUARD_S

Code = grpc.StatusCode
Event = response_event_pb2.StreamResponseResponse
Response = response_item_pb2.Response
QUEUED = response_item_pb2.RESPONSE_STATUS_QUEUED
IN_PROGRESS = response_item_pb2.RESPONSE_STATUS_IN_PROGRESS
COMPLETED = response_item_pb2.RESPONSE_STATUS_COMPLETED
FAILED = response_item_pb2.RESPONSE_STATUS_FAILED
CANCELLED = response_item_pb2.RESPONSE_STATUS_CANCELLED


def storing(folder: Path, **settings: Any) -> dict[str, Any]:
    """Return settings of a service that stores responses in a folder, and takes over jobs quickly."""
    chosen = {"file": folder / "responses.sqlite3", "timeout_s": GUARD_S, "lease_s": 0.3, **settings}
    return {"stored_responses": chosen}


def in_background(**fields: Any) -> Any:
    return response_request(**{"store": True, "background": True, **fields})


async def get(run: Running, response_id: str) -> Response:
    found = await stub_of(run).GetResponse(stored_response_pb2.GetResponseRequest(id=response_id))
    response: Response = found.response
    return response


async def ended(run: Running, response_id: str) -> Response:
    """Return a response as soon as it has ended."""
    async with asyncio.timeout(GUARD_S):
        while (response := await get(run, response_id)).status in {QUEUED, IN_PROGRESS}:  # noqa: ASYNC110  as clients do
            await asyncio.sleep(0.01)  # a client polls
    return response


async def follow(run: Running, response_id: str, after: int | None = None) -> list[Event]:
    request = stored_response_pb2.FollowResponseRequest(id=response_id, starting_after=after)
    return [event async for event in stub_of(run).FollowResponse(request)]


async def create(run: Running, **fields: Any) -> Response:
    response: Response = (await stub_of(run).CreateResponse(in_background(**fields))).response
    return response


async def cancel(run: Running, response_id: str) -> Response:
    answer = await stub_of(run).CancelResponse(stored_response_pb2.CancelResponseRequest(id=response_id))
    response: Response = answer.response
    return response


def text_of(response: Response) -> str:
    return response.output[0].message.content[0].text


def kinds_of(events: list[Event]) -> list[str]:
    return [event.WhichOneof("event") or "" for event in events]


def comparable(events: list[Event]) -> list[str]:
    """Return events without what two answers to one request differ in: ids, times, and tokens found in the cache."""
    texts = []
    for event in events:
        response_id = events[0].created.response.id
        text = re.sub(r"\s*((created|completed) \{(\s+(seconds|nanos): \d+)+\s+\}|cached_tokens: \d+)", "", str(event))
        texts.append(text.replace(response_id, "ID"))
    return texts

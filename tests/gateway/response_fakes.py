"""A service with recorded responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import grpc
from google.protobuf import text_format
from sluice.v1 import response_event_pb2, response_pb2, response_pb2_grpc

from tests.gateway import fakes

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "responses"
Event: TypeAlias = response_event_pb2.StreamResponseResponse


def recorded(name: str) -> list[Event]:
    """Return a recorded stream of the service."""
    blocks = (GOLDEN / f"{name}.textproto").read_text().split("\n---\n")
    return [text_format.Parse(block, Event()) for block in blocks]


class FakeResponseService(fakes.FakeService, response_pb2_grpc.ResponseServiceServicer):
    """Answers by `events`: None waits until the call is cancelled, an exception is raised."""

    def __init__(self) -> None:
        super().__init__()
        self.events: Sequence[Event | Exception | None] = recorded("text")
        self.response_requests: list[response_pb2.CreateResponseRequest] = []

    async def GetResponse(self, request: Any, context: Any) -> Any:  # noqa: N802  the contract's name
        """Fail, because nothing is stored."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED)

    DeleteResponse = ListInputItems = ReplayResponse = CancelResponse = GetResponse

    async def FollowResponse(self, request: Any, context: Any) -> AsyncIterator[Event]:  # noqa: N802
        """Fail, because nothing is stored."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED)
        yield Event()

    async def StreamResponse(  # noqa: N802  the contract's name
        self, request: response_pb2.CreateResponseRequest, context: Any
    ) -> AsyncIterator[Event]:
        self._note(context)
        self.response_requests.append(request)
        try:
            for event in self.events:
                if event is None:
                    await asyncio.Event().wait()
                elif isinstance(event, Exception):
                    raise event
                else:
                    yield event
                    self.num_sent += 1
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled.set()
            raise
        except fakes.Status as status:
            await fakes.abort(context, status)

    async def CreateResponse(  # noqa: N802  the contract's name
        self, request: response_pb2.CreateResponseRequest, context: Any
    ) -> response_pb2.CreateResponseResponse:
        async for event in self.StreamResponse(request, context):
            last = event
        ended = last.completed if last.HasField("completed") else last.incomplete
        return response_pb2.CreateResponseResponse(response=ended.response)

"""sluice.v1.ResponseService."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from sluice.v1 import response_event_pb2, response_pb2, response_pb2_grpc, stored_response_pb2

from service.answering.background.background_responses import BackgroundResponses
from service.answering.errors import ResponseNotFound
from service.answering.generation import Answering, Context
from service.answering.idempotent_calls import IdempotentCalls
from service.answering.kind import continuing
from service.answering.repeatable_response import repeatable
from service.answering.replays import Replays
from service.answering.stored_responses import StoredResponses
from service.calls.call import Timed


class ResponseServicer(response_pb2_grpc.ResponseServiceServicer):
    """Implements ResponseService."""

    def __init__(
        self,
        answering: Answering,
        calls: IdempotentCalls,
        stored: StoredResponses,
        background: BackgroundResponses | None,
        replays: Replays,
    ) -> None:
        """Without `background`, no response is stored."""
        self._calls = calls
        self._answering = answering
        self._stored = stored
        self._background = background
        self._replays = replays

    async def CreateResponse(  # noqa: N802
        self, request: response_pb2.CreateResponseRequest, context: Context
    ) -> response_pb2.CreateResponseResponse:
        self._stored.check(request)
        if request.background and self._background is not None:
            return response_pb2.CreateResponseResponse(response=await self._background.create(request, context))
        return await self._calls.whole("CreateResponse", request, context, self._whole)

    async def StreamResponse(  # noqa: N802
        self, request: response_pb2.CreateResponseRequest, context: Context
    ) -> AsyncGenerator[response_event_pb2.StreamResponseResponse, None]:
        self._stored.check(request)
        if request.background and self._background is not None:
            queued = await self._background.create(request, context)
            async with aclosing(self._background.follow(queued.id)) as events:
                async for event in events:
                    yield event
            return
        async with aclosing(self._calls.stream("StreamResponse", request, context, self._stream)) as events:
            async for event in events:
                yield event

    async def _whole(
        self, request: response_pb2.CreateResponseRequest, context: Timed
    ) -> response_pb2.CreateResponseResponse:
        """Return a whole response, after it is stored."""
        request = repeatable(request)
        kind = continuing(await self._stored.history(request))
        answer = await self._answering.whole(kind, request, context)
        await self._stored.keep(request, answer.response)
        return answer

    async def _stream(
        self, request: response_pb2.CreateResponseRequest, context: Timed
    ) -> AsyncGenerator[response_event_pb2.StreamResponseResponse, None]:
        """Yield the events of a response, which is stored before the last one."""
        request = repeatable(request)
        kind = continuing(await self._stored.history(request))
        async with aclosing(self._answering.stream(kind, request, context)) as events:
            async for event in events:
                if event.HasField("completed"):
                    await self._stored.keep(request, event.completed.response)
                elif event.HasField("incomplete"):
                    await self._stored.keep(request, event.incomplete.response)
                yield event

    async def GetResponse(  # noqa: N802
        self,
        request: stored_response_pb2.GetResponseRequest,
        context: Context,  # noqa: ARG002
    ) -> stored_response_pb2.GetResponseResponse:
        return await self._stored.get(request.id)

    async def FollowResponse(  # noqa: N802
        self,
        request: stored_response_pb2.FollowResponseRequest,
        context: Context,  # noqa: ARG002
    ) -> AsyncGenerator[response_event_pb2.StreamResponseResponse, None]:
        if self._background is None:
            raise ResponseNotFound("id")
        after = request.starting_after if request.HasField("starting_after") else -1
        async with aclosing(self._background.follow(request.id, after)) as events:
            async for event in events:
                yield event

    async def CancelResponse(  # noqa: N802
        self,
        request: stored_response_pb2.CancelResponseRequest,
        context: Context,  # noqa: ARG002
    ) -> stored_response_pb2.CancelResponseResponse:
        if self._background is None:
            raise ResponseNotFound("id")
        return await self._background.cancel(request.id)

    async def DeleteResponse(  # noqa: N802
        self,
        request: stored_response_pb2.DeleteResponseRequest,
        context: Context,  # noqa: ARG002
    ) -> stored_response_pb2.DeleteResponseResponse:
        await self._stored.delete(request.id)
        if self._background is not None:
            self._background.stop(request.id)
        return stored_response_pb2.DeleteResponseResponse()

    async def ReplayResponse(  # noqa: N802
        self, request: stored_response_pb2.ReplayResponseRequest, context: Context
    ) -> stored_response_pb2.ReplayResponseResponse:
        return await self._replays.replay(request.id, context)

    async def ListInputItems(  # noqa: N802
        self,
        request: stored_response_pb2.ListInputItemsRequest,
        context: Context,  # noqa: ARG002
    ) -> stored_response_pb2.ListInputItemsResponse:
        return await self._stored.input_items(request)

"""sluice.v1.ResponseService."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from sluice.v1 import response_event_pb2, response_item_pb2, response_pb2, response_pb2_grpc, stored_response_pb2

from service.answering.background.background_responses import BackgroundResponses
from service.answering.errors import ResponseNotFound
from service.answering.generation import Answering, Context
from service.answering.idempotent_calls import IdempotentCalls
from service.answering.kind import RESPONSE, continuing
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
            return response_pb2.CreateResponseResponse(response=await self._queued(self._background, request, context))
        source = partial(self._events, stream=False)
        async with aclosing(self._calls.messages("CreateResponse", request, context, source)) as events:
            return await self._answering.fold(RESPONSE, events)

    async def StreamResponse(  # noqa: N802
        self, request: response_pb2.CreateResponseRequest, context: Context
    ) -> AsyncGenerator[response_event_pb2.StreamResponseResponse, None]:
        self._stored.check(request)
        if request.background and self._background is not None:
            queued = await self._queued(self._background, request, context)
            async with aclosing(self._background.follow(queued.id)) as events:
                async for event in events:
                    yield event
            return
        source = partial(self._events, stream=True)
        async with aclosing(self._calls.messages("CreateResponse", request, context, source)) as events:
            async for event in events:
                yield event

    async def _queued(
        self, background: BackgroundResponses, request: response_pb2.CreateResponseRequest, context: Context
    ) -> response_item_pb2.Response:
        """Create a response in the background, unless its id is that of a call in the foreground."""
        with self._calls.reserved("CreateResponse", request):
            return await background.create(request, context)

    async def _events(
        self, request: response_pb2.CreateResponseRequest, context: Timed, *, stream: bool
    ) -> AsyncGenerator[response_event_pb2.StreamResponseResponse, None]:
        """Yield the events of a response, which is stored before the last one. They are folded without `stream`."""
        request = repeatable(await self._stored.with_items(request))
        await self._stored.check_id(request)
        kind = continuing(await self._stored.history(request))
        async with aclosing(self._answering.messages(kind, request, context, stream=stream)) as events:
            async for event in events:
                if (name := event.WhichOneof("event")) in {"completed", "incomplete"}:
                    response = getattr(event, name).response
                    if not stream:
                        self._answering.size(response_pb2.CreateResponseResponse(response=response))
                    await self._stored.keep(request, response)
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

"""Fakes of the completion, embedding and endpoint services, with scripted answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from sluice.v1 import (
    chat_pb2,
    completion_pb2,
    completion_pb2_grpc,
    embedding_pb2,
    embedding_pb2_grpc,
    endpoint_pb2,
    endpoint_pb2_grpc,
    model_pb2,
    usage_pb2,
)

from tests.gateway import fakes

_STARTED = completion_pb2.CompletionStarted(id="1", created=fakes.CREATED, model="m", system_fingerprint="fp_1", n=1)
EVENTS = [
    completion_pb2.StreamCompleteResponse(started=_STARTED),
    completion_pb2.StreamCompleteResponse(delta=completion_pb2.CompletionDelta(text="Hel")),
    completion_pb2.StreamCompleteResponse(delta=completion_pb2.CompletionDelta(text="lo")),
    completion_pb2.StreamCompleteResponse(
        choice_finished=chat_pb2.ChoiceFinished(finish_reason=chat_pb2.FINISH_REASON_LENGTH)
    ),
    completion_pb2.StreamCompleteResponse(usage=fakes.USAGE),
    completion_pb2.StreamCompleteResponse(completed=completion_pb2.CompletionCompleted()),
]
WHOLE = completion_pb2.CompleteResponse(
    id="1",
    created=fakes.CREATED,
    model="m",
    system_fingerprint="fp_1",
    choices=[completion_pb2.CompletionChoice(text="Hello", finish_reason=chat_pb2.FINISH_REASON_LENGTH)],
    usage=fakes.USAGE,
)
VECTORS = embedding_pb2.EmbedResponse(
    id="1",
    created=fakes.CREATED,
    model="m",
    embeddings=[
        embedding_pb2.Embedding(index=0, values=[0.5, -0.25]),
        embedding_pb2.Embedding(index=1, values=[0.1, 1.0]),
    ],
    usage=usage_pb2.Usage(prompt_tokens=7),
)


def endpoint(name: str, task: model_pb2.Task, *entities: str) -> endpoint_pb2.Endpoint:
    """Return a model's own endpoint, or one with `entities`."""
    served = [endpoint_pb2.ServedEntity(name=entity, model=entity) for entity in entities or (name,)]
    return endpoint_pb2.Endpoint(name=name, task=task, entities=served, is_model=not entities)


class FakeServices(
    fakes.FakeService,
    completion_pb2_grpc.CompletionServiceServicer,
    embedding_pb2_grpc.EmbeddingServiceServicer,
    endpoint_pb2_grpc.EndpointServiceServicer,
):
    """Answers with the constants above, or fails with `status` if it is set.

    Lists `endpoints`, or what `endpoints_by_credential` has for the caller's `authorization`.

    A call of a name in `held` waits until it is cancelled.
    """

    def __init__(self) -> None:
        super().__init__()
        self.completions: list[completion_pb2.CompleteRequest] = []
        self.embeddings: list[embedding_pb2.EmbedRequest] = []
        self.endpoints = [
            endpoint("embedder", model_pb2.TASK_EMBEDDING),
            endpoint("talker", model_pb2.TASK_CHAT),
        ]
        self.endpoints_by_credential: dict[str, list[endpoint_pb2.Endpoint]] = {}
        self.num_listed = 0
        self.held: set[str] = set()
        self.holding = asyncio.Event()
        self.num_events = len(EVENTS)
        self.status: fakes.Status | None = None

    async def Complete(  # noqa: N802  the contract's name
        self, request: completion_pb2.CompleteRequest, context: Any
    ) -> completion_pb2.CompleteResponse:
        await self._begin(context, "Complete")
        self.completions.append(request)
        return WHOLE

    async def StreamComplete(  # noqa: N802  the contract's name
        self, request: completion_pb2.CompleteRequest, context: Any
    ) -> AsyncIterator[completion_pb2.StreamCompleteResponse]:
        await self._begin(context, "StreamComplete")
        self.completions.append(request)
        for event in EVENTS[: self.num_events]:
            yield event

    async def Embed(  # noqa: N802  the contract's name
        self, request: embedding_pb2.EmbedRequest, context: Any
    ) -> embedding_pb2.EmbedResponse:
        await self._begin(context, "Embed")
        self.embeddings.append(request)
        return VECTORS

    async def ListEndpoints(  # noqa: N802  the contract's name
        self, request: endpoint_pb2.ListEndpointsRequest, context: Any
    ) -> endpoint_pb2.ListEndpointsResponse:
        await self._begin(context, "ListEndpoints")
        self.num_listed += 1
        credential = self.metadata[-1].get("authorization", "")
        visible = self.endpoints_by_credential.get(credential, self.endpoints)
        return endpoint_pb2.ListEndpointsResponse(endpoints=visible)

    async def GetEndpoint(  # noqa: N802  the contract's name
        self, request: endpoint_pb2.GetEndpointRequest, context: Any
    ) -> endpoint_pb2.GetEndpointResponse:
        await self._begin(context, "GetEndpoint")
        return endpoint_pb2.GetEndpointResponse(endpoint=await self._found(request.name, context))

    async def CreateEndpoint(  # noqa: N802  the contract's name
        self, request: endpoint_pb2.CreateEndpointRequest, context: Any
    ) -> endpoint_pb2.CreateEndpointResponse:
        await self._begin(context, "CreateEndpoint")
        self.endpoints.append(endpoint_pb2.Endpoint(name=request.name, entities=request.entities))
        return endpoint_pb2.CreateEndpointResponse(endpoint=self.endpoints[-1])

    async def UpdateEndpoint(  # noqa: N802  the contract's name
        self, request: endpoint_pb2.UpdateEndpointRequest, context: Any
    ) -> endpoint_pb2.UpdateEndpointResponse:
        await self._begin(context, "UpdateEndpoint")
        found = await self._found(request.name, context)
        del found.entities[:]
        found.entities.extend(request.entities)
        return endpoint_pb2.UpdateEndpointResponse(endpoint=found)

    async def DeleteEndpoint(  # noqa: N802  the contract's name
        self, request: endpoint_pb2.DeleteEndpointRequest, context: Any
    ) -> endpoint_pb2.DeleteEndpointResponse:
        await self._begin(context, "DeleteEndpoint")
        self.endpoints.remove(await self._found(request.name, context))
        return endpoint_pb2.DeleteEndpointResponse()

    async def _found(self, name: str, context: Any) -> endpoint_pb2.Endpoint:
        found = [each for each in self.endpoints if each.name == name]
        if not found:
            words = f"the endpoint {name!r} does not exist"
            await fakes.abort(context, fakes.Status(grpc.StatusCode.NOT_FOUND, words, fakes.error_info("NEW")))
        return found[0]

    async def _begin(self, context: Any, name: str) -> None:
        self._note(context)
        if name in self.held:
            self.holding.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if self.status is not None:
            await fakes.abort(context, self.status)

"""The service's RPCs by the type of their request, whole and streaming, with the deadline of each.

What generates has the long deadline, what only looks something up the short one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message
from sluice.v1 import (
    chat_pb2,
    chat_pb2_grpc,
    completion_pb2,
    completion_pb2_grpc,
    embedding_pb2,
    embedding_pb2_grpc,
    endpoint_pb2,
    endpoint_pb2_grpc,
    load_pb2,
    model_pb2,
    model_pb2_grpc,
    rank_pb2,
    rank_pb2_grpc,
    response_pb2,
    response_pb2_grpc,
    text_generation_pb2,
    text_generation_pb2_grpc,
    token_pb2,
    token_pb2_grpc,
)

from gateway.config import Settings


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC: its full name, what begins a call of it, and the longest time of one in seconds.

    `needs_room` tells whether it may have to wait for an engine, or be refused for want of room there.
    """

    name: str
    begin: Any
    deadline_s: float
    needs_room: bool


class MethodTable:
    """All RPCs on one channel: `whole` has the unary ones, `stream` those that answer by events."""

    def __init__(self, channel: grpc.aio.Channel, settings: Settings) -> None:
        self.whole: dict[type[Message], Method] = {}
        self.stream: dict[type[Message], Method] = {}
        for request, service, stub, whole, stream in _generations(channel):

            def generation(name: str, service: str = service, stub: Any = stub) -> Method:
                return Method(f"{service}/{name}", getattr(stub, name), settings.request_deadline_s, needs_room=True)

            self.whole[request] = generation(whole)
            if stream is not None:
                self.stream[request] = generation(stream)
        for request, service, stub, name in _lookups(channel):
            begin = getattr(stub, name)
            self.whole[request] = Method(f"{service}/{name}", begin, settings.lookup_deadline_s, needs_room=False)


def _generations(channel: grpc.aio.Channel) -> Iterator[tuple[type[Message], str, Any, str, str | None]]:
    yield (
        chat_pb2.ChatRequest,
        "sluice.v1.ChatService",
        chat_pb2_grpc.ChatServiceStub(channel),
        "Chat",
        "StreamChat",
    )
    yield (
        completion_pb2.CompleteRequest,
        "sluice.v1.CompletionService",
        completion_pb2_grpc.CompletionServiceStub(channel),
        "Complete",
        "StreamComplete",
    )
    yield (
        text_generation_pb2.GenerateTextRequest,
        "sluice.v1.TextGenerationService",
        text_generation_pb2_grpc.TextGenerationServiceStub(channel),
        "GenerateText",
        "StreamGenerateText",
    )
    yield (
        response_pb2.CreateResponseRequest,
        "sluice.v1.ResponseService",
        response_pb2_grpc.ResponseServiceStub(channel),
        "CreateResponse",
        "StreamResponse",
    )
    yield (
        embedding_pb2.EmbedRequest,
        "sluice.v1.EmbeddingService",
        embedding_pb2_grpc.EmbeddingServiceStub(channel),
        "Embed",
        None,
    )
    ranks = rank_pb2_grpc.RankServiceStub(channel)
    yield rank_pb2.RankRequest, "sluice.v1.RankService", ranks, "Rank", None
    yield rank_pb2.ScoreRequest, "sluice.v1.RankService", ranks, "Score", None


def _lookups(channel: grpc.aio.Channel) -> Iterator[tuple[type[Message], str, Any, str]]:
    models = model_pb2_grpc.ModelServiceStub(channel)
    yield model_pb2.ListModelsRequest, "sluice.v1.ModelService", models, "ListModels"
    yield model_pb2.GetModelRequest, "sluice.v1.ModelService", models, "GetModel"
    yield load_pb2.GetLoadRequest, "sluice.v1.ModelService", models, "GetLoad"
    endpoints = endpoint_pb2_grpc.EndpointServiceStub(channel)
    yield endpoint_pb2.ListEndpointsRequest, "sluice.v1.EndpointService", endpoints, "ListEndpoints"
    yield endpoint_pb2.GetEndpointRequest, "sluice.v1.EndpointService", endpoints, "GetEndpoint"
    yield endpoint_pb2.CreateEndpointRequest, "sluice.v1.EndpointService", endpoints, "CreateEndpoint"
    yield endpoint_pb2.UpdateEndpointRequest, "sluice.v1.EndpointService", endpoints, "UpdateEndpoint"
    yield endpoint_pb2.DeleteEndpointRequest, "sluice.v1.EndpointService", endpoints, "DeleteEndpoint"
    tokens = token_pb2_grpc.TokenServiceStub(channel)
    yield token_pb2.CountTokensRequest, "sluice.v1.TokenService", tokens, "CountTokens"
    yield token_pb2.DetokenizeTextRequest, "sluice.v1.TokenService", tokens, "DetokenizeText"

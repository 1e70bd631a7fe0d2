"""The contract's methods: their paths, and the messages that they take and give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message as Proto

from sluice_client.v1 import (
    adapter_pb2,
    chat_pb2,
    completion_pb2,
    embedding_pb2,
    endpoint_pb2,
    load_pb2,
    model_pb2,
    rank_pb2,
    response_event_pb2,
    response_pb2,
    text_generation_pb2,
    token_pb2,
    watermark_pb2,
)

Q = TypeVar("Q", bound=Proto)  # a request
A = TypeVar("A", bound=Proto)  # an answer or an event


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, A]):
    """One of them."""

    path: str
    request: type[Q]
    answer: type[A]
    is_stream: bool = False

    def on(self, channel: Any) -> Callable[..., Any]:
        """What begins calls of it on a channel."""
        kind = channel.unary_stream if self.is_stream else channel.unary_unary
        begin: Callable[..., Any] = kind(
            self.path, request_serializer=self.request.SerializeToString, response_deserializer=self.answer.FromString
        )
        return begin


def _path(service: str, method: str) -> str:
    return f"/sluice.v1.{service}/{method}"


CHAT: Final = Method(_path("ChatService", "Chat"), chat_pb2.ChatRequest, chat_pb2.ChatResponse)
STREAM_CHAT: Final = Method(
    _path("ChatService", "StreamChat"), chat_pb2.ChatRequest, chat_pb2.StreamChatResponse, is_stream=True
)
COMPLETE: Final = Method(
    _path("CompletionService", "Complete"), completion_pb2.CompleteRequest, completion_pb2.CompleteResponse
)
STREAM_COMPLETE: Final = Method(
    _path("CompletionService", "StreamComplete"),
    completion_pb2.CompleteRequest,
    completion_pb2.StreamCompleteResponse,
    is_stream=True,
)
CREATE_RESPONSE: Final = Method(
    _path("ResponseService", "CreateResponse"), response_pb2.CreateResponseRequest, response_pb2.CreateResponseResponse
)
STREAM_RESPONSE: Final = Method(
    _path("ResponseService", "StreamResponse"),
    response_pb2.CreateResponseRequest,
    response_event_pb2.StreamResponseResponse,
    is_stream=True,
)
GENERATE_TEXT: Final = Method(
    _path("TextGenerationService", "GenerateText"),
    text_generation_pb2.GenerateTextRequest,
    text_generation_pb2.GenerateTextResponse,
)
STREAM_GENERATE_TEXT: Final = Method(
    _path("TextGenerationService", "StreamGenerateText"),
    text_generation_pb2.GenerateTextRequest,
    text_generation_pb2.StreamGenerateTextResponse,
    is_stream=True,
)
EMBED: Final = Method(_path("EmbeddingService", "Embed"), embedding_pb2.EmbedRequest, embedding_pb2.EmbedResponse)
RANK: Final = Method(_path("RankService", "Rank"), rank_pb2.RankRequest, rank_pb2.RankResponse)
SCORE: Final = Method(_path("RankService", "Score"), rank_pb2.ScoreRequest, rank_pb2.ScoreResponse)
TOKENIZE: Final = Method(
    _path("TokenService", "TokenizeText"), token_pb2.TokenizeTextRequest, token_pb2.TokenizeTextResponse
)
DETOKENIZE: Final = Method(
    _path("TokenService", "DetokenizeText"), token_pb2.DetokenizeTextRequest, token_pb2.DetokenizeTextResponse
)
COUNT_TOKENS: Final = Method(
    _path("TokenService", "CountTokens"), token_pb2.CountTokensRequest, token_pb2.CountTokensResponse
)
LIST_MODELS: Final = Method(
    _path("ModelService", "ListModels"), model_pb2.ListModelsRequest, model_pb2.ListModelsResponse
)
GET_MODEL: Final = Method(_path("ModelService", "GetModel"), model_pb2.GetModelRequest, model_pb2.GetModelResponse)
LOAD_MODEL: Final = Method(_path("ModelService", "LoadModel"), model_pb2.LoadModelRequest, model_pb2.LoadModelResponse)
UNLOAD_MODEL: Final = Method(
    _path("ModelService", "UnloadModel"), model_pb2.UnloadModelRequest, model_pb2.UnloadModelResponse
)
SLEEP_MODEL: Final = Method(
    _path("ModelService", "SleepModel"), model_pb2.SleepModelRequest, model_pb2.SleepModelResponse
)
WAKE_MODEL: Final = Method(_path("ModelService", "WakeModel"), model_pb2.WakeModelRequest, model_pb2.WakeModelResponse)
GET_LOAD: Final = Method(_path("ModelService", "GetLoad"), load_pb2.GetLoadRequest, load_pb2.GetLoadResponse)
CREATE_ENDPOINT: Final = Method(
    _path("EndpointService", "CreateEndpoint"), endpoint_pb2.CreateEndpointRequest, endpoint_pb2.CreateEndpointResponse
)
GET_ENDPOINT: Final = Method(
    _path("EndpointService", "GetEndpoint"), endpoint_pb2.GetEndpointRequest, endpoint_pb2.GetEndpointResponse
)
LIST_ENDPOINTS: Final = Method(
    _path("EndpointService", "ListEndpoints"), endpoint_pb2.ListEndpointsRequest, endpoint_pb2.ListEndpointsResponse
)
UPDATE_ENDPOINT: Final = Method(
    _path("EndpointService", "UpdateEndpoint"), endpoint_pb2.UpdateEndpointRequest, endpoint_pb2.UpdateEndpointResponse
)
DELETE_ENDPOINT: Final = Method(
    _path("EndpointService", "DeleteEndpoint"), endpoint_pb2.DeleteEndpointRequest, endpoint_pb2.DeleteEndpointResponse
)
LOAD_ADAPTER: Final = Method(
    _path("AdapterService", "LoadAdapter"), adapter_pb2.LoadAdapterRequest, adapter_pb2.LoadAdapterResponse
)
UNLOAD_ADAPTER: Final = Method(
    _path("AdapterService", "UnloadAdapter"), adapter_pb2.UnloadAdapterRequest, adapter_pb2.UnloadAdapterResponse
)
LIST_ADAPTERS: Final = Method(
    _path("AdapterService", "ListAdapters"), adapter_pb2.ListAdaptersRequest, adapter_pb2.ListAdaptersResponse
)
DETECT_WATERMARK: Final = Method(
    _path("WatermarkService", "DetectWatermark"),
    watermark_pb2.DetectWatermarkRequest,
    watermark_pb2.DetectWatermarkResponse,
)

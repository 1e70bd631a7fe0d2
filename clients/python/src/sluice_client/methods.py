"""The RPCs of the contract: their paths, and the types of their requests and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodDescriptorProto
from google.protobuf.message import Message as Proto

from sluice_client.v1 import (
    adapter_pb2,
    batch_pb2,
    chat_pb2,
    completion_pb2,
    conversation_pb2,
    embedding_pb2,
    endpoint_pb2,
    file_pb2,
    load_pb2,
    model_pb2,
    operation_pb2,
    quota_pb2,
    rank_pb2,
    receipt_pb2,
    response_event_pb2,
    response_pb2,
    stored_response_pb2,
    text_generation_pb2,
    token_pb2,
    watermark_pb2,
)

RequestT = TypeVar("RequestT", bound=Proto)  # the message of a request
ResponseT = TypeVar("ResponseT", bound=Proto)  # the message of a response, or of an event in a streamed one


@dataclass(frozen=True, slots=True)
class Method(Generic[RequestT, ResponseT]):
    """One RPC."""

    path: str
    request: type[RequestT]
    answer: type[ResponseT]
    is_stream: bool = False
    is_upload: bool = False  # whether its requests are streamed

    def on(self, channel: Any) -> Callable[..., Any]:
        """Return gRPC's multi-callable of this RPC on a channel, synchronous or asynchronous like the channel."""
        kind = channel.unary_stream if self.is_stream else channel.unary_unary
        kind = channel.stream_unary if self.is_upload else kind
        multicallable: Callable[..., Any] = kind(
            self.path, request_serializer=self.request.SerializeToString, response_deserializer=self.answer.FromString
        )
        return multicallable


def _declared() -> Iterator[tuple[str, MethodDescriptor]]:
    modules = (
        adapter_pb2,
        batch_pb2,
        chat_pb2,
        completion_pb2,
        conversation_pb2,
        embedding_pb2,
        endpoint_pb2,
        file_pb2,
        model_pb2,
        operation_pb2,
        quota_pb2,
        rank_pb2,
        receipt_pb2,
        response_pb2,
        text_generation_pb2,
        token_pb2,
        watermark_pb2,
    )
    for module in modules:
        file: FileDescriptor = module.DESCRIPTOR
        for service in file.services_by_name.values():
            for method in service.methods:
                yield method.name, method


_DECLARED: Final = dict(_declared())  # no two services of the contract have an RPC of the same name


def _method(name: str, request: type[RequestT], answer: type[ResponseT]) -> Method[RequestT, ResponseT]:
    """Return the RPC of that name; its path, and whether its answers are streamed, follow from the descriptor."""
    proto = MethodDescriptorProto()
    _DECLARED[name].CopyToProto(proto)
    path = f"/{_DECLARED[name].containing_service.full_name}/{name}"
    return Method(path, request, answer, proto.server_streaming, proto.client_streaming)


CHAT: Final = _method("Chat", chat_pb2.ChatRequest, chat_pb2.ChatResponse)
STREAM_CHAT: Final = _method("StreamChat", chat_pb2.ChatRequest, chat_pb2.StreamChatResponse)
COMPLETE: Final = _method("Complete", completion_pb2.CompleteRequest, completion_pb2.CompleteResponse)
STREAM_COMPLETE: Final = _method(
    "StreamComplete", completion_pb2.CompleteRequest, completion_pb2.StreamCompleteResponse
)
CREATE_RESPONSE: Final = _method(
    "CreateResponse", response_pb2.CreateResponseRequest, response_pb2.CreateResponseResponse
)
STREAM_RESPONSE: Final = _method(
    "StreamResponse", response_pb2.CreateResponseRequest, response_event_pb2.StreamResponseResponse
)
GET_RESPONSE: Final = _method(
    "GetResponse", stored_response_pb2.GetResponseRequest, stored_response_pb2.GetResponseResponse
)
FOLLOW_RESPONSE: Final = _method(
    "FollowResponse", stored_response_pb2.FollowResponseRequest, response_event_pb2.StreamResponseResponse
)
CANCEL_RESPONSE: Final = _method(
    "CancelResponse", stored_response_pb2.CancelResponseRequest, stored_response_pb2.CancelResponseResponse
)
DELETE_RESPONSE: Final = _method(
    "DeleteResponse", stored_response_pb2.DeleteResponseRequest, stored_response_pb2.DeleteResponseResponse
)
REPLAY_RESPONSE: Final = _method(
    "ReplayResponse", stored_response_pb2.ReplayResponseRequest, stored_response_pb2.ReplayResponseResponse
)
LIST_INPUT_ITEMS: Final = _method(
    "ListInputItems", stored_response_pb2.ListInputItemsRequest, stored_response_pb2.ListInputItemsResponse
)
CREATE_CONVERSATION: Final = _method(
    "CreateConversation", conversation_pb2.CreateConversationRequest, conversation_pb2.CreateConversationResponse
)
GET_CONVERSATION: Final = _method(
    "GetConversation", conversation_pb2.GetConversationRequest, conversation_pb2.GetConversationResponse
)
UPDATE_CONVERSATION: Final = _method(
    "UpdateConversation", conversation_pb2.UpdateConversationRequest, conversation_pb2.UpdateConversationResponse
)
DELETE_CONVERSATION: Final = _method(
    "DeleteConversation", conversation_pb2.DeleteConversationRequest, conversation_pb2.DeleteConversationResponse
)
ADD_CONVERSATION_ITEMS: Final = _method(
    "AddConversationItems", conversation_pb2.AddConversationItemsRequest, conversation_pb2.AddConversationItemsResponse
)
LIST_CONVERSATION_ITEMS: Final = _method(
    "ListConversationItems",
    conversation_pb2.ListConversationItemsRequest,
    conversation_pb2.ListConversationItemsResponse,
)
GET_CONVERSATION_ITEM: Final = _method(
    "GetConversationItem", conversation_pb2.GetConversationItemRequest, conversation_pb2.GetConversationItemResponse
)
DELETE_CONVERSATION_ITEM: Final = _method(
    "DeleteConversationItem",
    conversation_pb2.DeleteConversationItemRequest,
    conversation_pb2.DeleteConversationItemResponse,
)
UPLOAD_FILE: Final = _method("UploadFile", file_pb2.UploadFileRequest, file_pb2.UploadFileResponse)
GET_FILE: Final = _method("GetFile", file_pb2.GetFileRequest, file_pb2.GetFileResponse)
LIST_FILES: Final = _method("ListFiles", file_pb2.ListFilesRequest, file_pb2.ListFilesResponse)
DELETE_FILE: Final = _method("DeleteFile", file_pb2.DeleteFileRequest, file_pb2.DeleteFileResponse)
RECORD_FILE_SIZE: Final = _method("RecordFileSize", file_pb2.RecordFileSizeRequest, file_pb2.RecordFileSizeResponse)
DOWNLOAD_FILE: Final = _method("DownloadFile", file_pb2.DownloadFileRequest, file_pb2.DownloadFileResponse)
CREATE_BATCH: Final = _method("CreateBatch", batch_pb2.CreateBatchRequest, batch_pb2.CreateBatchResponse)
GET_BATCH: Final = _method("GetBatch", batch_pb2.GetBatchRequest, batch_pb2.GetBatchResponse)
LIST_BATCHES: Final = _method("ListBatches", batch_pb2.ListBatchesRequest, batch_pb2.ListBatchesResponse)
CANCEL_BATCH: Final = _method("CancelBatch", batch_pb2.CancelBatchRequest, batch_pb2.CancelBatchResponse)
DELETE_BATCH: Final = _method("DeleteBatch", batch_pb2.DeleteBatchRequest, batch_pb2.DeleteBatchResponse)
STREAM_BATCH_RESULTS: Final = _method(
    "StreamBatchResults", batch_pb2.StreamBatchResultsRequest, batch_pb2.StreamBatchResultsResponse
)
GENERATE_TEXT: Final = _method(
    "GenerateText", text_generation_pb2.GenerateTextRequest, text_generation_pb2.GenerateTextResponse
)
STREAM_GENERATE_TEXT: Final = _method(
    "StreamGenerateText", text_generation_pb2.GenerateTextRequest, text_generation_pb2.StreamGenerateTextResponse
)
EMBED: Final = _method("Embed", embedding_pb2.EmbedRequest, embedding_pb2.EmbedResponse)
RANK: Final = _method("Rank", rank_pb2.RankRequest, rank_pb2.RankResponse)
SCORE: Final = _method("Score", rank_pb2.ScoreRequest, rank_pb2.ScoreResponse)
TOKENIZE: Final = _method("TokenizeText", token_pb2.TokenizeTextRequest, token_pb2.TokenizeTextResponse)
DETOKENIZE: Final = _method("DetokenizeText", token_pb2.DetokenizeTextRequest, token_pb2.DetokenizeTextResponse)
COUNT_TOKENS: Final = _method("CountTokens", token_pb2.CountTokensRequest, token_pb2.CountTokensResponse)
LIST_MODELS: Final = _method("ListModels", model_pb2.ListModelsRequest, model_pb2.ListModelsResponse)
GET_MODEL: Final = _method("GetModel", model_pb2.GetModelRequest, model_pb2.GetModelResponse)
KEEP_MODEL: Final = _method("KeepModel", model_pb2.KeepModelRequest, model_pb2.KeepModelResponse)
LOAD_MODEL: Final = _method("LoadModel", model_pb2.LoadModelRequest, model_pb2.LoadModelResponse)
UNLOAD_MODEL: Final = _method("UnloadModel", model_pb2.UnloadModelRequest, model_pb2.UnloadModelResponse)
SLEEP_MODEL: Final = _method("SleepModel", model_pb2.SleepModelRequest, model_pb2.SleepModelResponse)
WAKE_MODEL: Final = _method("WakeModel", model_pb2.WakeModelRequest, model_pb2.WakeModelResponse)
GET_OPERATION: Final = _method("GetOperation", operation_pb2.GetOperationRequest, operation_pb2.GetOperationResponse)
LIST_OPERATIONS: Final = _method(
    "ListOperations", operation_pb2.ListOperationsRequest, operation_pb2.ListOperationsResponse
)
WAIT_OPERATION: Final = _method(
    "WaitOperation", operation_pb2.WaitOperationRequest, operation_pb2.WaitOperationResponse
)
CANCEL_OPERATION: Final = _method(
    "CancelOperation", operation_pb2.CancelOperationRequest, operation_pb2.CancelOperationResponse
)
GET_LOAD: Final = _method("GetLoad", load_pb2.GetLoadRequest, load_pb2.GetLoadResponse)
GET_USAGE: Final = _method("GetUsage", quota_pb2.GetUsageRequest, quota_pb2.GetUsageResponse)
CREATE_ENDPOINT: Final = _method(
    "CreateEndpoint", endpoint_pb2.CreateEndpointRequest, endpoint_pb2.CreateEndpointResponse
)
GET_ENDPOINT: Final = _method("GetEndpoint", endpoint_pb2.GetEndpointRequest, endpoint_pb2.GetEndpointResponse)
LIST_ENDPOINTS: Final = _method("ListEndpoints", endpoint_pb2.ListEndpointsRequest, endpoint_pb2.ListEndpointsResponse)
UPDATE_ENDPOINT: Final = _method(
    "UpdateEndpoint", endpoint_pb2.UpdateEndpointRequest, endpoint_pb2.UpdateEndpointResponse
)
DELETE_ENDPOINT: Final = _method(
    "DeleteEndpoint", endpoint_pb2.DeleteEndpointRequest, endpoint_pb2.DeleteEndpointResponse
)
LOAD_ADAPTER: Final = _method("LoadAdapter", adapter_pb2.LoadAdapterRequest, adapter_pb2.LoadAdapterResponse)
UNLOAD_ADAPTER: Final = _method("UnloadAdapter", adapter_pb2.UnloadAdapterRequest, adapter_pb2.UnloadAdapterResponse)
LIST_ADAPTERS: Final = _method("ListAdapters", adapter_pb2.ListAdaptersRequest, adapter_pb2.ListAdaptersResponse)
DETECT_WATERMARK: Final = _method(
    "DetectWatermark", watermark_pb2.DetectWatermarkRequest, watermark_pb2.DetectWatermarkResponse
)
LIST_RECEIPT_KEYS: Final = _method(
    "ListReceiptKeys", receipt_pb2.ListReceiptKeysRequest, receipt_pb2.ListReceiptKeysResponse
)

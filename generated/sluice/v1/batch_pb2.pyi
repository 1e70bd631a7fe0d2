import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from sluice.v1 import chat_pb2 as _chat_pb2
from sluice.v1 import completion_pb2 as _completion_pb2
from sluice.v1 import embedding_pb2 as _embedding_pb2
from sluice.v1 import error_pb2 as _error_pb2
from sluice.v1 import file_pb2 as _file_pb2
from sluice.v1 import response_pb2 as _response_pb2
from sluice.v1 import rpc_pb2 as _rpc_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BatchStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCH_STATUS_UNSPECIFIED: _ClassVar[BatchStatus]
    BATCH_STATUS_IN_PROGRESS: _ClassVar[BatchStatus]
    BATCH_STATUS_COMPLETED: _ClassVar[BatchStatus]
    BATCH_STATUS_EXPIRED: _ClassVar[BatchStatus]
    BATCH_STATUS_CANCELLED: _ClassVar[BatchStatus]
BATCH_STATUS_UNSPECIFIED: BatchStatus
BATCH_STATUS_IN_PROGRESS: BatchStatus
BATCH_STATUS_COMPLETED: BatchStatus
BATCH_STATUS_EXPIRED: BatchStatus
BATCH_STATUS_CANCELLED: BatchStatus

class Batch(_message.Message):
    __slots__ = ("id", "description", "status", "created", "expires", "ended", "num_requests", "num_succeeded", "num_failed", "output_file_id", "error_file_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    NUM_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    NUM_SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    NUM_FAILED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FILE_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FILE_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    description: BatchDescription
    status: BatchStatus
    created: _timestamp_pb2.Timestamp
    expires: _timestamp_pb2.Timestamp
    ended: _timestamp_pb2.Timestamp
    num_requests: int
    num_succeeded: int
    num_failed: int
    output_file_id: str
    error_file_id: str
    def __init__(self, id: _Optional[str] = ..., description: _Optional[_Union[BatchDescription, _Mapping]] = ..., status: _Optional[_Union[BatchStatus, str]] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., num_requests: _Optional[int] = ..., num_succeeded: _Optional[int] = ..., num_failed: _Optional[int] = ..., output_file_id: _Optional[str] = ..., error_file_id: _Optional[str] = ...) -> None: ...

class BatchDescription(_message.Message):
    __slots__ = ("completion_window_seconds", "metadata", "client_data", "request_id", "output_expires_after_seconds")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    COMPLETION_WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    CLIENT_DATA_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_EXPIRES_AFTER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    completion_window_seconds: int
    metadata: _containers.ScalarMap[str, str]
    client_data: bytes
    request_id: str
    output_expires_after_seconds: int
    def __init__(self, completion_window_seconds: _Optional[int] = ..., metadata: _Optional[_Mapping[str, str]] = ..., client_data: _Optional[bytes] = ..., request_id: _Optional[str] = ..., output_expires_after_seconds: _Optional[int] = ...) -> None: ...

class BatchLine(_message.Message):
    __slots__ = ("custom_id", "client_data", "chat", "completion", "response", "embedding", "rejected")
    CUSTOM_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_DATA_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    custom_id: str
    client_data: bytes
    chat: _chat_pb2.ChatRequest
    completion: _completion_pb2.CompleteRequest
    response: _response_pb2.CreateResponseRequest
    embedding: _embedding_pb2.EmbedRequest
    rejected: BatchError
    def __init__(self, custom_id: _Optional[str] = ..., client_data: _Optional[bytes] = ..., chat: _Optional[_Union[_chat_pb2.ChatRequest, _Mapping]] = ..., completion: _Optional[_Union[_completion_pb2.CompleteRequest, _Mapping]] = ..., response: _Optional[_Union[_response_pb2.CreateResponseRequest, _Mapping]] = ..., embedding: _Optional[_Union[_embedding_pb2.EmbedRequest, _Mapping]] = ..., rejected: _Optional[_Union[BatchError, _Mapping]] = ...) -> None: ...

class BatchLines(_message.Message):
    __slots__ = ("lines",)
    LINES_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[BatchLine]
    def __init__(self, lines: _Optional[_Iterable[_Union[BatchLine, _Mapping]]] = ...) -> None: ...

class CreateBatchRequest(_message.Message):
    __slots__ = ("description", "requests")
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    description: BatchDescription
    requests: BatchLines
    def __init__(self, description: _Optional[_Union[BatchDescription, _Mapping]] = ..., requests: _Optional[_Union[BatchLines, _Mapping]] = ...) -> None: ...

class CreateBatchResponse(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: Batch
    def __init__(self, batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class GetBatchRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetBatchResponse(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: Batch
    def __init__(self, batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class ListBatchesRequest(_message.Message):
    __slots__ = ("page_size", "after", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    after: str
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., after: _Optional[str] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListBatchesResponse(_message.Message):
    __slots__ = ("batches", "has_more", "next_page_token")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[Batch]
    has_more: bool
    next_page_token: str
    def __init__(self, batches: _Optional[_Iterable[_Union[Batch, _Mapping]]] = ..., has_more: _Optional[bool] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CancelBatchRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class CancelBatchResponse(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: Batch
    def __init__(self, batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class DeleteBatchRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DeleteBatchResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StreamBatchResultsRequest(_message.Message):
    __slots__ = ("id", "outcome")
    ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    id: str
    outcome: _file_pb2.BatchOutcome
    def __init__(self, id: _Optional[str] = ..., outcome: _Optional[_Union[_file_pb2.BatchOutcome, str]] = ...) -> None: ...

class StreamBatchResultsResponse(_message.Message):
    __slots__ = ("index", "custom_id", "client_data", "chat", "completion", "response", "embedding", "error")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_DATA_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    index: int
    custom_id: str
    client_data: bytes
    chat: _chat_pb2.ChatResponse
    completion: _completion_pb2.CompleteResponse
    response: _response_pb2.CreateResponseResponse
    embedding: _embedding_pb2.EmbedResponse
    error: BatchError
    def __init__(self, index: _Optional[int] = ..., custom_id: _Optional[str] = ..., client_data: _Optional[bytes] = ..., chat: _Optional[_Union[_chat_pb2.ChatResponse, _Mapping]] = ..., completion: _Optional[_Union[_completion_pb2.CompleteResponse, _Mapping]] = ..., response: _Optional[_Union[_response_pb2.CreateResponseResponse, _Mapping]] = ..., embedding: _Optional[_Union[_embedding_pb2.EmbedResponse, _Mapping]] = ..., error: _Optional[_Union[BatchError, _Mapping]] = ...) -> None: ...

class BatchError(_message.Message):
    __slots__ = ("reason", "message", "field")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    reason: _error_pb2.ErrorReason
    message: str
    field: str
    def __init__(self, reason: _Optional[_Union[_error_pb2.ErrorReason, str]] = ..., message: _Optional[str] = ..., field: _Optional[str] = ...) -> None: ...

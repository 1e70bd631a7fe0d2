from sluice.v1 import logprobs_pb2 as _logprobs_pb2
from sluice.v1 import response_item_pb2 as _response_item_pb2
from sluice.v1 import usage_pb2 as _usage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StreamResponseResponse(_message.Message):
    __slots__ = ("sequence_number", "created", "in_progress", "output_item_added", "output_item_done", "content_part_added", "content_part_done", "output_text_delta", "output_text_done", "reasoning_text_delta", "reasoning_text_done", "function_call_arguments_delta", "function_call_arguments_done", "completed", "incomplete", "usage", "queued", "failed", "cancelled", "stream", "position", "client_data")
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_ITEM_ADDED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_ITEM_DONE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_PART_ADDED_FIELD_NUMBER: _ClassVar[int]
    CONTENT_PART_DONE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TEXT_DELTA_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TEXT_DONE_FIELD_NUMBER: _ClassVar[int]
    REASONING_TEXT_DELTA_FIELD_NUMBER: _ClassVar[int]
    REASONING_TEXT_DONE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_CALL_ARGUMENTS_DELTA_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_CALL_ARGUMENTS_DONE_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_DATA_FIELD_NUMBER: _ClassVar[int]
    sequence_number: int
    created: ResponseCreated
    in_progress: ResponseInProgress
    output_item_added: OutputItemAdded
    output_item_done: OutputItemDone
    content_part_added: ContentPartAdded
    content_part_done: ContentPartDone
    output_text_delta: OutputTextDelta
    output_text_done: OutputTextDone
    reasoning_text_delta: ReasoningTextDelta
    reasoning_text_done: ReasoningTextDone
    function_call_arguments_delta: FunctionCallArgumentsDelta
    function_call_arguments_done: FunctionCallArgumentsDone
    completed: ResponseCompleted
    incomplete: ResponseIncomplete
    usage: _usage_pb2.Usage
    queued: ResponseQueued
    failed: ResponseFailed
    cancelled: ResponseCancelled
    stream: bytes
    position: bytes
    client_data: bytes
    def __init__(self, sequence_number: _Optional[int] = ..., created: _Optional[_Union[ResponseCreated, _Mapping]] = ..., in_progress: _Optional[_Union[ResponseInProgress, _Mapping]] = ..., output_item_added: _Optional[_Union[OutputItemAdded, _Mapping]] = ..., output_item_done: _Optional[_Union[OutputItemDone, _Mapping]] = ..., content_part_added: _Optional[_Union[ContentPartAdded, _Mapping]] = ..., content_part_done: _Optional[_Union[ContentPartDone, _Mapping]] = ..., output_text_delta: _Optional[_Union[OutputTextDelta, _Mapping]] = ..., output_text_done: _Optional[_Union[OutputTextDone, _Mapping]] = ..., reasoning_text_delta: _Optional[_Union[ReasoningTextDelta, _Mapping]] = ..., reasoning_text_done: _Optional[_Union[ReasoningTextDone, _Mapping]] = ..., function_call_arguments_delta: _Optional[_Union[FunctionCallArgumentsDelta, _Mapping]] = ..., function_call_arguments_done: _Optional[_Union[FunctionCallArgumentsDone, _Mapping]] = ..., completed: _Optional[_Union[ResponseCompleted, _Mapping]] = ..., incomplete: _Optional[_Union[ResponseIncomplete, _Mapping]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., queued: _Optional[_Union[ResponseQueued, _Mapping]] = ..., failed: _Optional[_Union[ResponseFailed, _Mapping]] = ..., cancelled: _Optional[_Union[ResponseCancelled, _Mapping]] = ..., stream: _Optional[bytes] = ..., position: _Optional[bytes] = ..., client_data: _Optional[bytes] = ...) -> None: ...

class ResponseCreated(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _response_item_pb2.Response
    def __init__(self, response: _Optional[_Union[_response_item_pb2.Response, _Mapping]] = ...) -> None: ...

class ResponseInProgress(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _response_item_pb2.Response
    def __init__(self, response: _Optional[_Union[_response_item_pb2.Response, _Mapping]] = ...) -> None: ...

class OutputItemAdded(_message.Message):
    __slots__ = ("output_index", "item")
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    output_index: int
    item: _response_item_pb2.OutputItem
    def __init__(self, output_index: _Optional[int] = ..., item: _Optional[_Union[_response_item_pb2.OutputItem, _Mapping]] = ...) -> None: ...

class OutputItemDone(_message.Message):
    __slots__ = ("output_index", "item")
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    output_index: int
    item: _response_item_pb2.OutputItem
    def __init__(self, output_index: _Optional[int] = ..., item: _Optional[_Union[_response_item_pb2.OutputItem, _Mapping]] = ...) -> None: ...

class ContentPartAdded(_message.Message):
    __slots__ = ("item_id", "output_index", "content_index", "part")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    CONTENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    output_index: int
    content_index: int
    part: _response_item_pb2.OutputText
    def __init__(self, item_id: _Optional[str] = ..., output_index: _Optional[int] = ..., content_index: _Optional[int] = ..., part: _Optional[_Union[_response_item_pb2.OutputText, _Mapping]] = ...) -> None: ...

class ContentPartDone(_message.Message):
    __slots__ = ("item_id", "output_index", "content_index", "part")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    CONTENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    output_index: int
    content_index: int
    part: _response_item_pb2.OutputText
    def __init__(self, item_id: _Optional[str] = ..., output_index: _Optional[int] = ..., content_index: _Optional[int] = ..., part: _Optional[_Union[_response_item_pb2.OutputText, _Mapping]] = ...) -> None: ...

class OutputTextDelta(_message.Message):
    __slots__ = ("item_id", "output_index", "content_index", "delta", "logprobs")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    CONTENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    output_index: int
    content_index: int
    delta: str
    logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprob]
    def __init__(self, item_id: _Optional[str] = ..., output_index: _Optional[int] = ..., content_index: _Optional[int] = ..., delta: _Optional[str] = ..., logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprob, _Mapping]]] = ...) -> None: ...

class OutputTextDone(_message.Message):
    __slots__ = ("item_id", "output_index", "content_index", "text", "logprobs")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    CONTENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    output_index: int
    content_index: int
    text: str
    logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprob]
    def __init__(self, item_id: _Optional[str] = ..., output_index: _Optional[int] = ..., content_index: _Optional[int] = ..., text: _Optional[str] = ..., logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprob, _Mapping]]] = ...) -> None: ...

class ReasoningTextDelta(_message.Message):
    __slots__ = ("item_id", "output_index", "delta")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    output_index: int
    delta: str
    def __init__(self, item_id: _Optional[str] = ..., output_index: _Optional[int] = ..., delta: _Optional[str] = ...) -> None: ...

class ReasoningTextDone(_message.Message):
    __slots__ = ("item_id", "output_index", "text")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    output_index: int
    text: str
    def __init__(self, item_id: _Optional[str] = ..., output_index: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class FunctionCallArgumentsDelta(_message.Message):
    __slots__ = ("item_id", "output_index", "delta", "custom")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    output_index: int
    delta: str
    custom: bool
    def __init__(self, item_id: _Optional[str] = ..., output_index: _Optional[int] = ..., delta: _Optional[str] = ..., custom: _Optional[bool] = ...) -> None: ...

class FunctionCallArgumentsDone(_message.Message):
    __slots__ = ("item_id", "output_index", "arguments", "custom")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    output_index: int
    arguments: str
    custom: bool
    def __init__(self, item_id: _Optional[str] = ..., output_index: _Optional[int] = ..., arguments: _Optional[str] = ..., custom: _Optional[bool] = ...) -> None: ...

class ResponseCompleted(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _response_item_pb2.Response
    def __init__(self, response: _Optional[_Union[_response_item_pb2.Response, _Mapping]] = ...) -> None: ...

class ResponseIncomplete(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _response_item_pb2.Response
    def __init__(self, response: _Optional[_Union[_response_item_pb2.Response, _Mapping]] = ...) -> None: ...

class ResponseQueued(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _response_item_pb2.Response
    def __init__(self, response: _Optional[_Union[_response_item_pb2.Response, _Mapping]] = ...) -> None: ...

class ResponseFailed(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _response_item_pb2.Response
    def __init__(self, response: _Optional[_Union[_response_item_pb2.Response, _Mapping]] = ...) -> None: ...

class ResponseCancelled(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _response_item_pb2.Response
    def __init__(self, response: _Optional[_Union[_response_item_pb2.Response, _Mapping]] = ...) -> None: ...

import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from sluice.v1 import chat_pb2 as _chat_pb2
from sluice.v1 import content_pb2 as _content_pb2
from sluice.v1 import error_pb2 as _error_pb2
from sluice.v1 import logprobs_pb2 as _logprobs_pb2
from sluice.v1 import sampling_pb2 as _sampling_pb2
from sluice.v1 import tool_pb2 as _tool_pb2
from sluice.v1 import usage_pb2 as _usage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResponseStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESPONSE_STATUS_UNSPECIFIED: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_IN_PROGRESS: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_COMPLETED: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_INCOMPLETE: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_QUEUED: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_FAILED: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_CANCELLED: _ClassVar[ResponseStatus]
RESPONSE_STATUS_UNSPECIFIED: ResponseStatus
RESPONSE_STATUS_IN_PROGRESS: ResponseStatus
RESPONSE_STATUS_COMPLETED: ResponseStatus
RESPONSE_STATUS_INCOMPLETE: ResponseStatus
RESPONSE_STATUS_QUEUED: ResponseStatus
RESPONSE_STATUS_FAILED: ResponseStatus
RESPONSE_STATUS_CANCELLED: ResponseStatus

class InputItem(_message.Message):
    __slots__ = ("message", "function_call", "function_call_output", "reasoning", "reference")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_CALL_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_CALL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    message: InputMessage
    function_call: FunctionCallItem
    function_call_output: FunctionCallOutput
    reasoning: ReasoningItem
    reference: ItemReference
    def __init__(self, message: _Optional[_Union[InputMessage, _Mapping]] = ..., function_call: _Optional[_Union[FunctionCallItem, _Mapping]] = ..., function_call_output: _Optional[_Union[FunctionCallOutput, _Mapping]] = ..., reasoning: _Optional[_Union[ReasoningItem, _Mapping]] = ..., reference: _Optional[_Union[ItemReference, _Mapping]] = ...) -> None: ...

class ItemReference(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class InputMessage(_message.Message):
    __slots__ = ("role", "content")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    role: _content_pb2.Role
    content: _containers.RepeatedCompositeFieldContainer[_content_pb2.ContentPart]
    def __init__(self, role: _Optional[_Union[_content_pb2.Role, str]] = ..., content: _Optional[_Iterable[_Union[_content_pb2.ContentPart, _Mapping]]] = ...) -> None: ...

class FunctionCallItem(_message.Message):
    __slots__ = ("call_id", "name", "arguments", "custom", "namespace", "known_tool")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_TOOL_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    name: str
    arguments: str
    custom: bool
    namespace: str
    known_tool: _tool_pb2.KnownTool
    def __init__(self, call_id: _Optional[str] = ..., name: _Optional[str] = ..., arguments: _Optional[str] = ..., custom: _Optional[bool] = ..., namespace: _Optional[str] = ..., known_tool: _Optional[_Union[_tool_pb2.KnownTool, str]] = ...) -> None: ...

class FunctionCallOutput(_message.Message):
    __slots__ = ("call_id", "output", "custom", "known_tool")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    KNOWN_TOOL_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    output: str
    custom: bool
    known_tool: _tool_pb2.KnownTool
    def __init__(self, call_id: _Optional[str] = ..., output: _Optional[str] = ..., custom: _Optional[bool] = ..., known_tool: _Optional[_Union[_tool_pb2.KnownTool, str]] = ...) -> None: ...

class ReasoningItem(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("id", "created", "model", "system_fingerprint", "status", "incomplete_reason", "output", "usage", "sampling", "stopping", "metadata", "completed", "reasoning_effort", "previous_response_id", "stored", "store_error", "background", "error", "conversation", "receipt")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_REASON_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    REASONING_EFFORT_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    STORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    id: str
    created: _timestamp_pb2.Timestamp
    model: str
    system_fingerprint: str
    status: ResponseStatus
    incomplete_reason: _chat_pb2.FinishReason
    output: _containers.RepeatedCompositeFieldContainer[OutputItem]
    usage: _usage_pb2.Usage
    sampling: _sampling_pb2.SamplingParams
    stopping: _sampling_pb2.StopParams
    metadata: _containers.ScalarMap[str, str]
    completed: _timestamp_pb2.Timestamp
    reasoning_effort: _chat_pb2.ReasoningEffort
    previous_response_id: str
    stored: bool
    store_error: str
    background: bool
    error: ResponseError
    conversation: str
    receipt: str
    def __init__(self, id: _Optional[str] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., model: _Optional[str] = ..., system_fingerprint: _Optional[str] = ..., status: _Optional[_Union[ResponseStatus, str]] = ..., incomplete_reason: _Optional[_Union[_chat_pb2.FinishReason, str]] = ..., output: _Optional[_Iterable[_Union[OutputItem, _Mapping]]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., sampling: _Optional[_Union[_sampling_pb2.SamplingParams, _Mapping]] = ..., stopping: _Optional[_Union[_sampling_pb2.StopParams, _Mapping]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., completed: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reasoning_effort: _Optional[_Union[_chat_pb2.ReasoningEffort, str]] = ..., previous_response_id: _Optional[str] = ..., stored: _Optional[bool] = ..., store_error: _Optional[str] = ..., background: _Optional[bool] = ..., error: _Optional[_Union[ResponseError, _Mapping]] = ..., conversation: _Optional[str] = ..., receipt: _Optional[str] = ...) -> None: ...

class ResponseError(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: _error_pb2.ErrorReason
    message: str
    def __init__(self, reason: _Optional[_Union[_error_pb2.ErrorReason, str]] = ..., message: _Optional[str] = ...) -> None: ...

class OutputItem(_message.Message):
    __slots__ = ("id", "status", "message", "function_call", "reasoning")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_CALL_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: ResponseStatus
    message: OutputMessage
    function_call: FunctionCallItem
    reasoning: ReasoningItem
    def __init__(self, id: _Optional[str] = ..., status: _Optional[_Union[ResponseStatus, str]] = ..., message: _Optional[_Union[OutputMessage, _Mapping]] = ..., function_call: _Optional[_Union[FunctionCallItem, _Mapping]] = ..., reasoning: _Optional[_Union[ReasoningItem, _Mapping]] = ...) -> None: ...

class OutputMessage(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: _containers.RepeatedCompositeFieldContainer[OutputText]
    def __init__(self, content: _Optional[_Iterable[_Union[OutputText, _Mapping]]] = ...) -> None: ...

class OutputText(_message.Message):
    __slots__ = ("text", "logprobs")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    text: str
    logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprob]
    def __init__(self, text: _Optional[str] = ..., logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprob, _Mapping]]] = ...) -> None: ...

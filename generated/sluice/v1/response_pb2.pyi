from buf.validate import validate_pb2 as _validate_pb2
from sluice.v1 import chat_pb2 as _chat_pb2
from sluice.v1 import logprobs_pb2 as _logprobs_pb2
from sluice.v1 import response_event_pb2 as _response_event_pb2
from sluice.v1 import response_item_pb2 as _response_item_pb2
from sluice.v1 import resume_pb2 as _resume_pb2
from sluice.v1 import rpc_pb2 as _rpc_pb2
from sluice.v1 import sampling_pb2 as _sampling_pb2
from sluice.v1 import serving_pb2 as _serving_pb2
from sluice.v1 import stored_response_pb2 as _stored_response_pb2
from sluice.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateResponseRequest(_message.Message):
    __slots__ = ("model", "input", "instructions", "sampling", "max_output_tokens", "logprobs", "output_constraint", "tools", "tool_choice", "parallel_tool_calls", "max_tool_calls", "reasoning_effort", "metadata", "serving", "resume", "chat_template_kwargs", "default_reasoning_effort", "store", "previous_response_id", "client_data", "background", "conversation", "conversation_until", "response_id")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    REASONING_EFFORT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    CHAT_TEMPLATE_KWARGS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_REASONING_EFFORT_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_DATA_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_UNTIL_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    model: str
    input: _containers.RepeatedCompositeFieldContainer[_response_item_pb2.InputItem]
    instructions: str
    sampling: _sampling_pb2.SamplingParams
    max_output_tokens: int
    logprobs: _logprobs_pb2.LogprobsOptions
    output_constraint: _sampling_pb2.OutputConstraint
    tools: _containers.RepeatedCompositeFieldContainer[_tool_pb2.Tool]
    tool_choice: _tool_pb2.ToolChoice
    parallel_tool_calls: bool
    max_tool_calls: int
    reasoning_effort: _chat_pb2.ReasoningEffort
    metadata: _containers.ScalarMap[str, str]
    serving: _serving_pb2.ServingOptions
    resume: _resume_pb2.ResumeOptions
    chat_template_kwargs: str
    default_reasoning_effort: _chat_pb2.ReasoningEffort
    store: bool
    previous_response_id: str
    client_data: bytes
    background: bool
    conversation: str
    conversation_until: str
    response_id: str
    def __init__(self, model: _Optional[str] = ..., input: _Optional[_Iterable[_Union[_response_item_pb2.InputItem, _Mapping]]] = ..., instructions: _Optional[str] = ..., sampling: _Optional[_Union[_sampling_pb2.SamplingParams, _Mapping]] = ..., max_output_tokens: _Optional[int] = ..., logprobs: _Optional[_Union[_logprobs_pb2.LogprobsOptions, _Mapping]] = ..., output_constraint: _Optional[_Union[_sampling_pb2.OutputConstraint, _Mapping]] = ..., tools: _Optional[_Iterable[_Union[_tool_pb2.Tool, _Mapping]]] = ..., tool_choice: _Optional[_Union[_tool_pb2.ToolChoice, _Mapping]] = ..., parallel_tool_calls: _Optional[bool] = ..., max_tool_calls: _Optional[int] = ..., reasoning_effort: _Optional[_Union[_chat_pb2.ReasoningEffort, str]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., serving: _Optional[_Union[_serving_pb2.ServingOptions, _Mapping]] = ..., resume: _Optional[_Union[_resume_pb2.ResumeOptions, _Mapping]] = ..., chat_template_kwargs: _Optional[str] = ..., default_reasoning_effort: _Optional[_Union[_chat_pb2.ReasoningEffort, str]] = ..., store: _Optional[bool] = ..., previous_response_id: _Optional[str] = ..., client_data: _Optional[bytes] = ..., background: _Optional[bool] = ..., conversation: _Optional[str] = ..., conversation_until: _Optional[str] = ..., response_id: _Optional[str] = ...) -> None: ...

class CreateResponseResponse(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _response_item_pb2.Response
    def __init__(self, response: _Optional[_Union[_response_item_pb2.Response, _Mapping]] = ...) -> None: ...

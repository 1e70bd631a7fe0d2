import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from sluice.v1 import content_pb2 as _content_pb2
from sluice.v1 import logprobs_pb2 as _logprobs_pb2
from sluice.v1 import new_tokens_pb2 as _new_tokens_pb2
from sluice.v1 import resume_pb2 as _resume_pb2
from sluice.v1 import rpc_pb2 as _rpc_pb2
from sluice.v1 import sampling_pb2 as _sampling_pb2
from sluice.v1 import serving_pb2 as _serving_pb2
from sluice.v1 import tool_pb2 as _tool_pb2
from sluice.v1 import usage_pb2 as _usage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReasoningEffort(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASONING_EFFORT_UNSPECIFIED: _ClassVar[ReasoningEffort]
    REASONING_EFFORT_NONE: _ClassVar[ReasoningEffort]
    REASONING_EFFORT_LOW: _ClassVar[ReasoningEffort]
    REASONING_EFFORT_MEDIUM: _ClassVar[ReasoningEffort]
    REASONING_EFFORT_HIGH: _ClassVar[ReasoningEffort]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
    FINISH_REASON_TOOL_CALLS: _ClassVar[FinishReason]
    FINISH_REASON_CONTENT_FILTER: _ClassVar[FinishReason]
REASONING_EFFORT_UNSPECIFIED: ReasoningEffort
REASONING_EFFORT_NONE: ReasoningEffort
REASONING_EFFORT_LOW: ReasoningEffort
REASONING_EFFORT_MEDIUM: ReasoningEffort
REASONING_EFFORT_HIGH: ReasoningEffort
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_TOOL_CALLS: FinishReason
FINISH_REASON_CONTENT_FILTER: FinishReason

class ChatRequest(_message.Message):
    __slots__ = ("model", "messages", "sampling", "stopping", "n", "logprobs", "output_constraint", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "serving", "resume", "reasoning_budget", "continue_final_message", "add_generation_prompt", "chat_template_kwargs", "skip_special_tokens", "prompt_logprobs", "tokens", "default_reasoning_effort")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    REASONING_EFFORT_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    REASONING_BUDGET_FIELD_NUMBER: _ClassVar[int]
    CONTINUE_FINAL_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ADD_GENERATION_PROMPT_FIELD_NUMBER: _ClassVar[int]
    CHAT_TEMPLATE_KWARGS_FIELD_NUMBER: _ClassVar[int]
    SKIP_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_REASONING_EFFORT_FIELD_NUMBER: _ClassVar[int]
    model: str
    messages: _containers.RepeatedCompositeFieldContainer[_content_pb2.Message]
    sampling: _sampling_pb2.SamplingParams
    stopping: _sampling_pb2.StopParams
    n: int
    logprobs: _logprobs_pb2.LogprobsOptions
    output_constraint: _sampling_pb2.OutputConstraint
    tools: _containers.RepeatedCompositeFieldContainer[_tool_pb2.Tool]
    tool_choice: _tool_pb2.ToolChoice
    parallel_tool_calls: bool
    reasoning_effort: ReasoningEffort
    serving: _serving_pb2.ServingOptions
    resume: _resume_pb2.ResumeOptions
    reasoning_budget: int
    continue_final_message: bool
    add_generation_prompt: bool
    chat_template_kwargs: str
    skip_special_tokens: bool
    prompt_logprobs: _logprobs_pb2.LogprobsOptions
    tokens: _new_tokens_pb2.TokensOptions
    default_reasoning_effort: ReasoningEffort
    def __init__(self, model: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_content_pb2.Message, _Mapping]]] = ..., sampling: _Optional[_Union[_sampling_pb2.SamplingParams, _Mapping]] = ..., stopping: _Optional[_Union[_sampling_pb2.StopParams, _Mapping]] = ..., n: _Optional[int] = ..., logprobs: _Optional[_Union[_logprobs_pb2.LogprobsOptions, _Mapping]] = ..., output_constraint: _Optional[_Union[_sampling_pb2.OutputConstraint, _Mapping]] = ..., tools: _Optional[_Iterable[_Union[_tool_pb2.Tool, _Mapping]]] = ..., tool_choice: _Optional[_Union[_tool_pb2.ToolChoice, _Mapping]] = ..., parallel_tool_calls: _Optional[bool] = ..., reasoning_effort: _Optional[_Union[ReasoningEffort, str]] = ..., serving: _Optional[_Union[_serving_pb2.ServingOptions, _Mapping]] = ..., resume: _Optional[_Union[_resume_pb2.ResumeOptions, _Mapping]] = ..., reasoning_budget: _Optional[int] = ..., continue_final_message: _Optional[bool] = ..., add_generation_prompt: _Optional[bool] = ..., chat_template_kwargs: _Optional[str] = ..., skip_special_tokens: _Optional[bool] = ..., prompt_logprobs: _Optional[_Union[_logprobs_pb2.LogprobsOptions, _Mapping]] = ..., tokens: _Optional[_Union[_new_tokens_pb2.TokensOptions, _Mapping]] = ..., default_reasoning_effort: _Optional[_Union[ReasoningEffort, str]] = ...) -> None: ...

class ChatResponse(_message.Message):
    __slots__ = ("id", "created", "model", "system_fingerprint", "choices", "usage", "prompt_logprobs", "prompt_token_ids", "reasoning_effort", "timings", "receipt")
    ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    REASONING_EFFORT_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    id: str
    created: _timestamp_pb2.Timestamp
    model: str
    system_fingerprint: str
    choices: _containers.RepeatedCompositeFieldContainer[ChatChoice]
    usage: _usage_pb2.Usage
    prompt_logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprob]
    prompt_token_ids: _containers.RepeatedScalarFieldContainer[int]
    reasoning_effort: ReasoningEffort
    timings: _serving_pb2.RequestTimings
    receipt: str
    def __init__(self, id: _Optional[str] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., model: _Optional[str] = ..., system_fingerprint: _Optional[str] = ..., choices: _Optional[_Iterable[_Union[ChatChoice, _Mapping]]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., prompt_logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprob, _Mapping]]] = ..., prompt_token_ids: _Optional[_Iterable[int]] = ..., reasoning_effort: _Optional[_Union[ReasoningEffort, str]] = ..., timings: _Optional[_Union[_serving_pb2.RequestTimings, _Mapping]] = ..., receipt: _Optional[str] = ...) -> None: ...

class ChatChoice(_message.Message):
    __slots__ = ("index", "message", "finish_reason", "stop_sequence", "logprobs", "token_ids")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    index: int
    message: _content_pb2.Message
    finish_reason: FinishReason
    stop_sequence: str
    logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprob]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, index: _Optional[int] = ..., message: _Optional[_Union[_content_pb2.Message, _Mapping]] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., stop_sequence: _Optional[str] = ..., logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprob, _Mapping]]] = ..., token_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class StreamChatResponse(_message.Message):
    __slots__ = ("sequence_number", "started", "content_delta", "reasoning_delta", "tool_call_delta", "choice_finished", "usage", "completed", "prompt_logprobs", "prompt_progress", "stream", "position", "tokens")
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    CONTENT_DELTA_FIELD_NUMBER: _ClassVar[int]
    REASONING_DELTA_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_DELTA_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FINISHED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    sequence_number: int
    started: ChatStarted
    content_delta: ContentDelta
    reasoning_delta: ReasoningDelta
    tool_call_delta: ToolCallDelta
    choice_finished: ChoiceFinished
    usage: _usage_pb2.Usage
    completed: ChatCompleted
    prompt_logprobs: PromptLogprobs
    prompt_progress: _serving_pb2.PromptProgress
    stream: bytes
    position: bytes
    tokens: _new_tokens_pb2.NewTokens
    def __init__(self, sequence_number: _Optional[int] = ..., started: _Optional[_Union[ChatStarted, _Mapping]] = ..., content_delta: _Optional[_Union[ContentDelta, _Mapping]] = ..., reasoning_delta: _Optional[_Union[ReasoningDelta, _Mapping]] = ..., tool_call_delta: _Optional[_Union[ToolCallDelta, _Mapping]] = ..., choice_finished: _Optional[_Union[ChoiceFinished, _Mapping]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., completed: _Optional[_Union[ChatCompleted, _Mapping]] = ..., prompt_logprobs: _Optional[_Union[PromptLogprobs, _Mapping]] = ..., prompt_progress: _Optional[_Union[_serving_pb2.PromptProgress, _Mapping]] = ..., stream: _Optional[bytes] = ..., position: _Optional[bytes] = ..., tokens: _Optional[_Union[_new_tokens_pb2.NewTokens, _Mapping]] = ...) -> None: ...

class ChatStarted(_message.Message):
    __slots__ = ("id", "created", "model", "system_fingerprint", "sampling", "stopping", "prompt_tokens", "prompt_token_ids", "reasoning_effort")
    ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    REASONING_EFFORT_FIELD_NUMBER: _ClassVar[int]
    id: str
    created: _timestamp_pb2.Timestamp
    model: str
    system_fingerprint: str
    sampling: _sampling_pb2.SamplingParams
    stopping: _sampling_pb2.StopParams
    prompt_tokens: int
    prompt_token_ids: _containers.RepeatedScalarFieldContainer[int]
    reasoning_effort: ReasoningEffort
    def __init__(self, id: _Optional[str] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., model: _Optional[str] = ..., system_fingerprint: _Optional[str] = ..., sampling: _Optional[_Union[_sampling_pb2.SamplingParams, _Mapping]] = ..., stopping: _Optional[_Union[_sampling_pb2.StopParams, _Mapping]] = ..., prompt_tokens: _Optional[int] = ..., prompt_token_ids: _Optional[_Iterable[int]] = ..., reasoning_effort: _Optional[_Union[ReasoningEffort, str]] = ...) -> None: ...

class PromptLogprobs(_message.Message):
    __slots__ = ("logprobs",)
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprob]
    def __init__(self, logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprob, _Mapping]]] = ...) -> None: ...

class ContentDelta(_message.Message):
    __slots__ = ("choice_index", "text", "logprobs")
    CHOICE_INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    choice_index: int
    text: str
    logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprob]
    def __init__(self, choice_index: _Optional[int] = ..., text: _Optional[str] = ..., logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprob, _Mapping]]] = ...) -> None: ...

class ReasoningDelta(_message.Message):
    __slots__ = ("choice_index", "text")
    CHOICE_INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    choice_index: int
    text: str
    def __init__(self, choice_index: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class ToolCallDelta(_message.Message):
    __slots__ = ("choice_index", "tool_call_index", "id", "name", "arguments")
    CHOICE_INDEX_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_INDEX_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    choice_index: int
    tool_call_index: int
    id: str
    name: str
    arguments: str
    def __init__(self, choice_index: _Optional[int] = ..., tool_call_index: _Optional[int] = ..., id: _Optional[str] = ..., name: _Optional[str] = ..., arguments: _Optional[str] = ...) -> None: ...

class ChoiceFinished(_message.Message):
    __slots__ = ("choice_index", "finish_reason", "stop_sequence")
    CHOICE_INDEX_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    choice_index: int
    finish_reason: FinishReason
    stop_sequence: str
    def __init__(self, choice_index: _Optional[int] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., stop_sequence: _Optional[str] = ...) -> None: ...

class ChatCompleted(_message.Message):
    __slots__ = ("timings", "receipt")
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    timings: _serving_pb2.RequestTimings
    receipt: str
    def __init__(self, timings: _Optional[_Union[_serving_pb2.RequestTimings, _Mapping]] = ..., receipt: _Optional[str] = ...) -> None: ...

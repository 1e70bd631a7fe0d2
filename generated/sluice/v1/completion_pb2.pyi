import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from sluice.v1 import chat_pb2 as _chat_pb2
from sluice.v1 import logprobs_pb2 as _logprobs_pb2
from sluice.v1 import new_tokens_pb2 as _new_tokens_pb2
from sluice.v1 import prompt_pb2 as _prompt_pb2
from sluice.v1 import resume_pb2 as _resume_pb2
from sluice.v1 import rpc_pb2 as _rpc_pb2
from sluice.v1 import sampling_pb2 as _sampling_pb2
from sluice.v1 import serving_pb2 as _serving_pb2
from sluice.v1 import usage_pb2 as _usage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CompleteRequest(_message.Message):
    __slots__ = ("model", "prompts", "sampling", "stopping", "n", "logprobs", "output_constraint", "suffix", "echo", "use_raw_prompt", "serving", "resume", "prompt_only", "skip_special_tokens", "prompt_logprobs", "tokens")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    ECHO_FIELD_NUMBER: _ClassVar[int]
    USE_RAW_PROMPT_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_ONLY_FIELD_NUMBER: _ClassVar[int]
    SKIP_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    model: str
    prompts: _containers.RepeatedCompositeFieldContainer[_prompt_pb2.Prompt]
    sampling: _sampling_pb2.SamplingParams
    stopping: _sampling_pb2.StopParams
    n: int
    logprobs: _logprobs_pb2.LogprobsOptions
    output_constraint: _sampling_pb2.OutputConstraint
    suffix: str
    echo: bool
    use_raw_prompt: bool
    serving: _serving_pb2.ServingOptions
    resume: _resume_pb2.ResumeOptions
    prompt_only: bool
    skip_special_tokens: bool
    prompt_logprobs: _logprobs_pb2.LogprobsOptions
    tokens: _new_tokens_pb2.TokensOptions
    def __init__(self, model: _Optional[str] = ..., prompts: _Optional[_Iterable[_Union[_prompt_pb2.Prompt, _Mapping]]] = ..., sampling: _Optional[_Union[_sampling_pb2.SamplingParams, _Mapping]] = ..., stopping: _Optional[_Union[_sampling_pb2.StopParams, _Mapping]] = ..., n: _Optional[int] = ..., logprobs: _Optional[_Union[_logprobs_pb2.LogprobsOptions, _Mapping]] = ..., output_constraint: _Optional[_Union[_sampling_pb2.OutputConstraint, _Mapping]] = ..., suffix: _Optional[str] = ..., echo: _Optional[bool] = ..., use_raw_prompt: _Optional[bool] = ..., serving: _Optional[_Union[_serving_pb2.ServingOptions, _Mapping]] = ..., resume: _Optional[_Union[_resume_pb2.ResumeOptions, _Mapping]] = ..., prompt_only: _Optional[bool] = ..., skip_special_tokens: _Optional[bool] = ..., prompt_logprobs: _Optional[_Union[_logprobs_pb2.LogprobsOptions, _Mapping]] = ..., tokens: _Optional[_Union[_new_tokens_pb2.TokensOptions, _Mapping]] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ("id", "created", "model", "system_fingerprint", "choices", "usage", "timings", "receipt")
    ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    id: str
    created: _timestamp_pb2.Timestamp
    model: str
    system_fingerprint: str
    choices: _containers.RepeatedCompositeFieldContainer[CompletionChoice]
    usage: _usage_pb2.Usage
    timings: _serving_pb2.RequestTimings
    receipt: str
    def __init__(self, id: _Optional[str] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., model: _Optional[str] = ..., system_fingerprint: _Optional[str] = ..., choices: _Optional[_Iterable[_Union[CompletionChoice, _Mapping]]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., timings: _Optional[_Union[_serving_pb2.RequestTimings, _Mapping]] = ..., receipt: _Optional[str] = ...) -> None: ...

class CompletionChoice(_message.Message):
    __slots__ = ("index", "prompt_index", "text", "finish_reason", "stop_sequence", "logprobs", "prompt_logprobs", "token_ids", "prompt_token_ids")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PROMPT_INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    index: int
    prompt_index: int
    text: str
    finish_reason: _chat_pb2.FinishReason
    stop_sequence: str
    logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprob]
    prompt_logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprob]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    prompt_token_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, index: _Optional[int] = ..., prompt_index: _Optional[int] = ..., text: _Optional[str] = ..., finish_reason: _Optional[_Union[_chat_pb2.FinishReason, str]] = ..., stop_sequence: _Optional[str] = ..., logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprob, _Mapping]]] = ..., prompt_logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprob, _Mapping]]] = ..., token_ids: _Optional[_Iterable[int]] = ..., prompt_token_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class StreamCompleteResponse(_message.Message):
    __slots__ = ("sequence_number", "started", "delta", "choice_finished", "usage", "completed", "prompt_progress", "stream", "position", "tokens")
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FINISHED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    PROMPT_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    sequence_number: int
    started: CompletionStarted
    delta: CompletionDelta
    choice_finished: _chat_pb2.ChoiceFinished
    usage: _usage_pb2.Usage
    completed: CompletionCompleted
    prompt_progress: _serving_pb2.PromptProgress
    stream: bytes
    position: bytes
    tokens: _new_tokens_pb2.NewTokens
    def __init__(self, sequence_number: _Optional[int] = ..., started: _Optional[_Union[CompletionStarted, _Mapping]] = ..., delta: _Optional[_Union[CompletionDelta, _Mapping]] = ..., choice_finished: _Optional[_Union[_chat_pb2.ChoiceFinished, _Mapping]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., completed: _Optional[_Union[CompletionCompleted, _Mapping]] = ..., prompt_progress: _Optional[_Union[_serving_pb2.PromptProgress, _Mapping]] = ..., stream: _Optional[bytes] = ..., position: _Optional[bytes] = ..., tokens: _Optional[_Union[_new_tokens_pb2.NewTokens, _Mapping]] = ...) -> None: ...

class CompletionStarted(_message.Message):
    __slots__ = ("id", "created", "model", "system_fingerprint", "sampling", "stopping", "n", "prompt_token_ids", "prompt_tokens")
    ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    id: str
    created: _timestamp_pb2.Timestamp
    model: str
    system_fingerprint: str
    sampling: _sampling_pb2.SamplingParams
    stopping: _sampling_pb2.StopParams
    n: int
    prompt_token_ids: _containers.RepeatedCompositeFieldContainer[_prompt_pb2.TokenIds]
    prompt_tokens: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, id: _Optional[str] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., model: _Optional[str] = ..., system_fingerprint: _Optional[str] = ..., sampling: _Optional[_Union[_sampling_pb2.SamplingParams, _Mapping]] = ..., stopping: _Optional[_Union[_sampling_pb2.StopParams, _Mapping]] = ..., n: _Optional[int] = ..., prompt_token_ids: _Optional[_Iterable[_Union[_prompt_pb2.TokenIds, _Mapping]]] = ..., prompt_tokens: _Optional[_Iterable[int]] = ...) -> None: ...

class CompletionDelta(_message.Message):
    __slots__ = ("choice_index", "text", "logprobs", "prompt_logprobs")
    CHOICE_INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    choice_index: int
    text: str
    logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprob]
    prompt_logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprob]
    def __init__(self, choice_index: _Optional[int] = ..., text: _Optional[str] = ..., logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprob, _Mapping]]] = ..., prompt_logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprob, _Mapping]]] = ...) -> None: ...

class CompletionCompleted(_message.Message):
    __slots__ = ("timings", "receipt")
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    timings: _serving_pb2.RequestTimings
    receipt: str
    def __init__(self, timings: _Optional[_Union[_serving_pb2.RequestTimings, _Mapping]] = ..., receipt: _Optional[str] = ...) -> None: ...

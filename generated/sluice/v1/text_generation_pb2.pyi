import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from sluice.v1 import chat_pb2 as _chat_pb2
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

class GenerateTextRequest(_message.Message):
    __slots__ = ("model", "model_version", "text_input", "do_sample", "sampling", "stopping", "perf_stat", "serving", "resume")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TEXT_INPUT_FIELD_NUMBER: _ClassVar[int]
    DO_SAMPLE_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    PERF_STAT_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    model: str
    model_version: str
    text_input: str
    do_sample: bool
    sampling: _sampling_pb2.SamplingParams
    stopping: _sampling_pb2.StopParams
    perf_stat: bool
    serving: _serving_pb2.ServingOptions
    resume: _resume_pb2.ResumeOptions
    def __init__(self, model: _Optional[str] = ..., model_version: _Optional[str] = ..., text_input: _Optional[str] = ..., do_sample: _Optional[bool] = ..., sampling: _Optional[_Union[_sampling_pb2.SamplingParams, _Mapping]] = ..., stopping: _Optional[_Union[_sampling_pb2.StopParams, _Mapping]] = ..., perf_stat: _Optional[bool] = ..., serving: _Optional[_Union[_serving_pb2.ServingOptions, _Mapping]] = ..., resume: _Optional[_Union[_resume_pb2.ResumeOptions, _Mapping]] = ...) -> None: ...

class GenerateTextResponse(_message.Message):
    __slots__ = ("id", "model", "model_version", "text", "finish_reason", "stop_sequence", "num_generated_tokens", "timings", "usage", "receipt")
    ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NUM_GENERATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    id: str
    model: str
    model_version: str
    text: str
    finish_reason: _chat_pb2.FinishReason
    stop_sequence: str
    num_generated_tokens: int
    timings: GenerationTimings
    usage: _usage_pb2.Usage
    receipt: str
    def __init__(self, id: _Optional[str] = ..., model: _Optional[str] = ..., model_version: _Optional[str] = ..., text: _Optional[str] = ..., finish_reason: _Optional[_Union[_chat_pb2.FinishReason, str]] = ..., stop_sequence: _Optional[str] = ..., num_generated_tokens: _Optional[int] = ..., timings: _Optional[_Union[GenerationTimings, _Mapping]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., receipt: _Optional[str] = ...) -> None: ...

class GenerationTimings(_message.Message):
    __slots__ = ("queue_wait", "first_token", "decode", "batch_size", "tokens")
    QUEUE_WAIT_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DECODE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    queue_wait: _duration_pb2.Duration
    first_token: _duration_pb2.Duration
    decode: _duration_pb2.Duration
    batch_size: int
    tokens: _containers.RepeatedCompositeFieldContainer[_duration_pb2.Duration]
    def __init__(self, queue_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., first_token: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., decode: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., batch_size: _Optional[int] = ..., tokens: _Optional[_Iterable[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]]] = ...) -> None: ...

class StreamGenerateTextResponse(_message.Message):
    __slots__ = ("sequence_number", "started", "delta", "finished", "usage", "completed", "prompt_progress", "stream", "position")
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    PROMPT_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    sequence_number: int
    started: TextGenerationStarted
    delta: TextGenerationDelta
    finished: TextGenerationFinished
    usage: _usage_pb2.Usage
    completed: TextGenerationCompleted
    prompt_progress: _serving_pb2.PromptProgress
    stream: bytes
    position: bytes
    def __init__(self, sequence_number: _Optional[int] = ..., started: _Optional[_Union[TextGenerationStarted, _Mapping]] = ..., delta: _Optional[_Union[TextGenerationDelta, _Mapping]] = ..., finished: _Optional[_Union[TextGenerationFinished, _Mapping]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., completed: _Optional[_Union[TextGenerationCompleted, _Mapping]] = ..., prompt_progress: _Optional[_Union[_serving_pb2.PromptProgress, _Mapping]] = ..., stream: _Optional[bytes] = ..., position: _Optional[bytes] = ...) -> None: ...

class TextGenerationStarted(_message.Message):
    __slots__ = ("id", "model", "model_version", "sampling", "stopping")
    ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    id: str
    model: str
    model_version: str
    sampling: _sampling_pb2.SamplingParams
    stopping: _sampling_pb2.StopParams
    def __init__(self, id: _Optional[str] = ..., model: _Optional[str] = ..., model_version: _Optional[str] = ..., sampling: _Optional[_Union[_sampling_pb2.SamplingParams, _Mapping]] = ..., stopping: _Optional[_Union[_sampling_pb2.StopParams, _Mapping]] = ...) -> None: ...

class TextGenerationDelta(_message.Message):
    __slots__ = ("text", "num_generated_tokens", "timings")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    NUM_GENERATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    text: str
    num_generated_tokens: int
    timings: GenerationTimings
    def __init__(self, text: _Optional[str] = ..., num_generated_tokens: _Optional[int] = ..., timings: _Optional[_Union[GenerationTimings, _Mapping]] = ...) -> None: ...

class TextGenerationFinished(_message.Message):
    __slots__ = ("finish_reason", "stop_sequence", "num_generated_tokens", "timings")
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NUM_GENERATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    finish_reason: _chat_pb2.FinishReason
    stop_sequence: str
    num_generated_tokens: int
    timings: GenerationTimings
    def __init__(self, finish_reason: _Optional[_Union[_chat_pb2.FinishReason, str]] = ..., stop_sequence: _Optional[str] = ..., num_generated_tokens: _Optional[int] = ..., timings: _Optional[_Union[GenerationTimings, _Mapping]] = ...) -> None: ...

class TextGenerationCompleted(_message.Message):
    __slots__ = ("receipt",)
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    receipt: str
    def __init__(self, receipt: _Optional[str] = ...) -> None: ...

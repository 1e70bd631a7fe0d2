import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorBehavior(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_BEHAVIOR_UNSPECIFIED: _ClassVar[ErrorBehavior]
    ERROR_BEHAVIOR_ERROR: _ClassVar[ErrorBehavior]
    ERROR_BEHAVIOR_TRUNCATE: _ClassVar[ErrorBehavior]
ERROR_BEHAVIOR_UNSPECIFIED: ErrorBehavior
ERROR_BEHAVIOR_ERROR: ErrorBehavior
ERROR_BEHAVIOR_TRUNCATE: ErrorBehavior

class ServingOptions(_message.Message):
    __slots__ = ("priority", "cache_salt", "error_behavior", "deployment", "slo_first_token_seconds", "slo_token_seconds", "request_id", "separate_tokens", "report_timings", "receipt", "report_progress", "keep_alive_seconds")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    ERROR_BEHAVIOR_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENT_FIELD_NUMBER: _ClassVar[int]
    SLO_FIRST_TOKEN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SLO_TOKEN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SEPARATE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REPORT_TIMINGS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    REPORT_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    KEEP_ALIVE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    priority: int
    cache_salt: str
    error_behavior: ErrorBehavior
    deployment: str
    slo_first_token_seconds: float
    slo_token_seconds: float
    request_id: str
    separate_tokens: bool
    report_timings: bool
    receipt: bool
    report_progress: bool
    keep_alive_seconds: float
    def __init__(self, priority: _Optional[int] = ..., cache_salt: _Optional[str] = ..., error_behavior: _Optional[_Union[ErrorBehavior, str]] = ..., deployment: _Optional[str] = ..., slo_first_token_seconds: _Optional[float] = ..., slo_token_seconds: _Optional[float] = ..., request_id: _Optional[str] = ..., separate_tokens: _Optional[bool] = ..., report_timings: _Optional[bool] = ..., receipt: _Optional[bool] = ..., report_progress: _Optional[bool] = ..., keep_alive_seconds: _Optional[float] = ...) -> None: ...

class RequestTimings(_message.Message):
    __slots__ = ("queue_wait", "first_token", "decode", "load_wait")
    QUEUE_WAIT_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DECODE_FIELD_NUMBER: _ClassVar[int]
    LOAD_WAIT_FIELD_NUMBER: _ClassVar[int]
    queue_wait: _duration_pb2.Duration
    first_token: _duration_pb2.Duration
    decode: _duration_pb2.Duration
    load_wait: _duration_pb2.Duration
    def __init__(self, queue_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., first_token: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., decode: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., load_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PromptProgress(_message.Message):
    __slots__ = ("total_tokens", "cached_tokens", "processed_tokens", "elapsed")
    TOTAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROCESSED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    total_tokens: int
    cached_tokens: int
    processed_tokens: int
    elapsed: _duration_pb2.Duration
    def __init__(self, total_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., processed_tokens: _Optional[int] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ServiceLevel(_message.Message):
    __slots__ = ("first_token_seconds", "token_seconds")
    FIRST_TOKEN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    first_token_seconds: float
    token_seconds: float
    def __init__(self, first_token_seconds: _Optional[float] = ..., token_seconds: _Optional[float] = ...) -> None: ...

import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetLoadRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetLoadResponse(_message.Message):
    __slots__ = ("started", "models", "entities", "calls")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    started: _timestamp_pb2.Timestamp
    models: _containers.RepeatedCompositeFieldContainer[ModelLoad]
    entities: _containers.RepeatedCompositeFieldContainer[EntityLoad]
    calls: _containers.RepeatedCompositeFieldContainer[CallCount]
    def __init__(self, started: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., models: _Optional[_Iterable[_Union[ModelLoad, _Mapping]]] = ..., entities: _Optional[_Iterable[_Union[EntityLoad, _Mapping]]] = ..., calls: _Optional[_Iterable[_Union[CallCount, _Mapping]]] = ...) -> None: ...

class ModelLoad(_message.Message):
    __slots__ = ("model", "running", "waiting", "blocks", "used_blocks", "cached_blocks", "prompt_tokens", "cached_prompt_tokens", "computed_tokens", "generated_tokens", "preemptions", "queue_time", "time_to_first_token", "time_per_output_token", "requests", "states", "cached_states", "state_bytes", "adopted_blocks")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    USED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CACHED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GENERATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_TIME_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_FIRST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TIME_PER_OUTPUT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    CACHED_STATES_FIELD_NUMBER: _ClassVar[int]
    STATE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    model: str
    running: int
    waiting: int
    blocks: int
    used_blocks: int
    cached_blocks: int
    prompt_tokens: int
    cached_prompt_tokens: int
    computed_tokens: int
    generated_tokens: int
    preemptions: int
    queue_time: Distribution
    time_to_first_token: Distribution
    time_per_output_token: Distribution
    requests: int
    states: int
    cached_states: int
    state_bytes: int
    adopted_blocks: int
    def __init__(self, model: _Optional[str] = ..., running: _Optional[int] = ..., waiting: _Optional[int] = ..., blocks: _Optional[int] = ..., used_blocks: _Optional[int] = ..., cached_blocks: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., cached_prompt_tokens: _Optional[int] = ..., computed_tokens: _Optional[int] = ..., generated_tokens: _Optional[int] = ..., preemptions: _Optional[int] = ..., queue_time: _Optional[_Union[Distribution, _Mapping]] = ..., time_to_first_token: _Optional[_Union[Distribution, _Mapping]] = ..., time_per_output_token: _Optional[_Union[Distribution, _Mapping]] = ..., requests: _Optional[int] = ..., states: _Optional[int] = ..., cached_states: _Optional[int] = ..., state_bytes: _Optional[int] = ..., adopted_blocks: _Optional[int] = ...) -> None: ...

class Distribution(_message.Message):
    __slots__ = ("bounds", "counts")
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    bounds: _containers.RepeatedScalarFieldContainer[float]
    counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, bounds: _Optional[_Iterable[float]] = ..., counts: _Optional[_Iterable[int]] = ...) -> None: ...

class EntityLoad(_message.Message):
    __slots__ = ("endpoint", "entity", "model", "traffic_percentage", "requests")
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_PERCENTAGE_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    endpoint: str
    entity: str
    model: str
    traffic_percentage: int
    requests: int
    def __init__(self, endpoint: _Optional[str] = ..., entity: _Optional[str] = ..., model: _Optional[str] = ..., traffic_percentage: _Optional[int] = ..., requests: _Optional[int] = ...) -> None: ...

class CallCount(_message.Message):
    __slots__ = ("method", "code", "reason", "calls")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    method: str
    code: str
    reason: str
    calls: int
    def __init__(self, method: _Optional[str] = ..., code: _Optional[str] = ..., reason: _Optional[str] = ..., calls: _Optional[int] = ...) -> None: ...

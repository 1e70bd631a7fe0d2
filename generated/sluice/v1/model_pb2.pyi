import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from sluice.v1 import load_pb2 as _load_pb2
from sluice.v1 import operation_pb2 as _operation_pb2
from sluice.v1 import rpc_pb2 as _rpc_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Task(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_UNSPECIFIED: _ClassVar[Task]
    TASK_CHAT: _ClassVar[Task]
    TASK_COMPLETION: _ClassVar[Task]
    TASK_EMBEDDING: _ClassVar[Task]
    TASK_RANK: _ClassVar[Task]

class Modality(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODALITY_UNSPECIFIED: _ClassVar[Modality]
    MODALITY_TEXT: _ClassVar[Modality]
    MODALITY_IMAGE: _ClassVar[Modality]

class ModelState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODEL_STATE_UNSPECIFIED: _ClassVar[ModelState]
    MODEL_STATE_LOADED: _ClassVar[ModelState]
    MODEL_STATE_UNLOADED: _ClassVar[ModelState]
    MODEL_STATE_ASLEEP: _ClassVar[ModelState]
TASK_UNSPECIFIED: Task
TASK_CHAT: Task
TASK_COMPLETION: Task
TASK_EMBEDDING: Task
TASK_RANK: Task
MODALITY_UNSPECIFIED: Modality
MODALITY_TEXT: Modality
MODALITY_IMAGE: Modality
MODEL_STATE_UNSPECIFIED: ModelState
MODEL_STATE_LOADED: ModelState
MODEL_STATE_UNLOADED: ModelState
MODEL_STATE_ASLEEP: ModelState

class ListModelsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models", "failed_models", "next_page_token")
    MODELS_FIELD_NUMBER: _ClassVar[int]
    FAILED_MODELS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    failed_models: _containers.RepeatedCompositeFieldContainer[FailedModel]
    next_page_token: str
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ..., failed_models: _Optional[_Iterable[_Union[FailedModel, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class FailedModel(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class GetModelRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class GetModelResponse(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class KeepModelRequest(_message.Message):
    __slots__ = ("model", "keep_alive_seconds")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    KEEP_ALIVE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    model: str
    keep_alive_seconds: float
    def __init__(self, model: _Optional[str] = ..., keep_alive_seconds: _Optional[float] = ...) -> None: ...

class KeepModelResponse(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "created", "tasks", "architecture", "max_model_len", "vocab_size", "num_parameters", "dtype", "system_fingerprint", "supports_tools", "supports_reasoning", "version", "embedding_dimensions", "supports_resume", "parent", "is_asleep", "input_modalities", "state", "expire_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    MAX_MODEL_LEN_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    NUM_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_TOOLS_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_REASONING_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_RESUME_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    IS_ASLEEP_FIELD_NUMBER: _ClassVar[int]
    INPUT_MODALITIES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    created: _timestamp_pb2.Timestamp
    tasks: _containers.RepeatedScalarFieldContainer[Task]
    architecture: str
    max_model_len: int
    vocab_size: int
    num_parameters: int
    dtype: str
    system_fingerprint: str
    supports_tools: bool
    supports_reasoning: bool
    version: str
    embedding_dimensions: int
    supports_resume: bool
    parent: str
    is_asleep: bool
    input_modalities: _containers.RepeatedScalarFieldContainer[Modality]
    state: ModelState
    expire_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[Task, str]]] = ..., architecture: _Optional[str] = ..., max_model_len: _Optional[int] = ..., vocab_size: _Optional[int] = ..., num_parameters: _Optional[int] = ..., dtype: _Optional[str] = ..., system_fingerprint: _Optional[str] = ..., supports_tools: _Optional[bool] = ..., supports_reasoning: _Optional[bool] = ..., version: _Optional[str] = ..., embedding_dimensions: _Optional[int] = ..., supports_resume: _Optional[bool] = ..., parent: _Optional[str] = ..., is_asleep: _Optional[bool] = ..., input_modalities: _Optional[_Iterable[_Union[Modality, str]]] = ..., state: _Optional[_Union[ModelState, str]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class LoadModelRequest(_message.Message):
    __slots__ = ("name", "path", "version", "dtype", "quantization", "backend", "device", "max_model_len", "cache_share", "background")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    QUANTIZATION_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    MAX_MODEL_LEN_FIELD_NUMBER: _ClassVar[int]
    CACHE_SHARE_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    name: str
    path: str
    version: str
    dtype: str
    quantization: str
    backend: str
    device: str
    max_model_len: int
    cache_share: float
    background: bool
    def __init__(self, name: _Optional[str] = ..., path: _Optional[str] = ..., version: _Optional[str] = ..., dtype: _Optional[str] = ..., quantization: _Optional[str] = ..., backend: _Optional[str] = ..., device: _Optional[str] = ..., max_model_len: _Optional[int] = ..., cache_share: _Optional[float] = ..., background: _Optional[bool] = ...) -> None: ...

class LoadModelResponse(_message.Message):
    __slots__ = ("model", "operation")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    model: Model
    operation: _operation_pb2.Operation
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ..., operation: _Optional[_Union[_operation_pb2.Operation, _Mapping]] = ...) -> None: ...

class UnloadModelRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class UnloadModelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SleepModelRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class SleepModelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WakeModelRequest(_message.Message):
    __slots__ = ("model", "background")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    model: str
    background: bool
    def __init__(self, model: _Optional[str] = ..., background: _Optional[bool] = ...) -> None: ...

class WakeModelResponse(_message.Message):
    __slots__ = ("operation",)
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    operation: _operation_pb2.Operation
    def __init__(self, operation: _Optional[_Union[_operation_pb2.Operation, _Mapping]] = ...) -> None: ...

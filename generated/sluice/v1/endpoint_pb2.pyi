import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from sluice.v1 import model_pb2 as _model_pb2
from sluice.v1 import rpc_pb2 as _rpc_pb2
from sluice.v1 import serving_pb2 as _serving_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Endpoint(_message.Message):
    __slots__ = ("name", "task", "entities", "created", "updated", "config_version", "is_model", "parent", "service_level")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    UPDATED_FIELD_NUMBER: _ClassVar[int]
    CONFIG_VERSION_FIELD_NUMBER: _ClassVar[int]
    IS_MODEL_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SERVICE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    name: str
    task: _model_pb2.Task
    entities: _containers.RepeatedCompositeFieldContainer[ServedEntity]
    created: _timestamp_pb2.Timestamp
    updated: _timestamp_pb2.Timestamp
    config_version: int
    is_model: bool
    parent: str
    service_level: _serving_pb2.ServiceLevel
    def __init__(self, name: _Optional[str] = ..., task: _Optional[_Union[_model_pb2.Task, str]] = ..., entities: _Optional[_Iterable[_Union[ServedEntity, _Mapping]]] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., config_version: _Optional[int] = ..., is_model: _Optional[bool] = ..., parent: _Optional[str] = ..., service_level: _Optional[_Union[_serving_pb2.ServiceLevel, _Mapping]] = ...) -> None: ...

class ServedEntity(_message.Message):
    __slots__ = ("name", "model", "traffic_percentage")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_PERCENTAGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    model: str
    traffic_percentage: int
    def __init__(self, name: _Optional[str] = ..., model: _Optional[str] = ..., traffic_percentage: _Optional[int] = ...) -> None: ...

class ListEndpointsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListEndpointsResponse(_message.Message):
    __slots__ = ("endpoints", "next_page_token")
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    next_page_token: str
    def __init__(self, endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetEndpointRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetEndpointResponse(_message.Message):
    __slots__ = ("endpoint",)
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    endpoint: Endpoint
    def __init__(self, endpoint: _Optional[_Union[Endpoint, _Mapping]] = ...) -> None: ...

class CreateEndpointRequest(_message.Message):
    __slots__ = ("name", "entities", "service_level")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    SERVICE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    name: str
    entities: _containers.RepeatedCompositeFieldContainer[ServedEntity]
    service_level: _serving_pb2.ServiceLevel
    def __init__(self, name: _Optional[str] = ..., entities: _Optional[_Iterable[_Union[ServedEntity, _Mapping]]] = ..., service_level: _Optional[_Union[_serving_pb2.ServiceLevel, _Mapping]] = ...) -> None: ...

class CreateEndpointResponse(_message.Message):
    __slots__ = ("endpoint",)
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    endpoint: Endpoint
    def __init__(self, endpoint: _Optional[_Union[Endpoint, _Mapping]] = ...) -> None: ...

class UpdateEndpointRequest(_message.Message):
    __slots__ = ("name", "entities", "config_version", "service_level")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    CONFIG_VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVICE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    name: str
    entities: _containers.RepeatedCompositeFieldContainer[ServedEntity]
    config_version: int
    service_level: _serving_pb2.ServiceLevel
    def __init__(self, name: _Optional[str] = ..., entities: _Optional[_Iterable[_Union[ServedEntity, _Mapping]]] = ..., config_version: _Optional[int] = ..., service_level: _Optional[_Union[_serving_pb2.ServiceLevel, _Mapping]] = ...) -> None: ...

class UpdateEndpointResponse(_message.Message):
    __slots__ = ("endpoint",)
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    endpoint: Endpoint
    def __init__(self, endpoint: _Optional[_Union[Endpoint, _Mapping]] = ...) -> None: ...

class DeleteEndpointRequest(_message.Message):
    __slots__ = ("name", "config_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    config_version: int
    def __init__(self, name: _Optional[str] = ..., config_version: _Optional[int] = ...) -> None: ...

class DeleteEndpointResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

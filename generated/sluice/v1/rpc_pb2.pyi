from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RpcKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RPC_KIND_UNSPECIFIED: _ClassVar[RpcKind]
    RPC_KIND_INFERENCE: _ClassVar[RpcKind]
    RPC_KIND_LOOKUP: _ClassVar[RpcKind]
    RPC_KIND_CHANGE: _ClassVar[RpcKind]
    RPC_KIND_MONITORING: _ClassVar[RpcKind]
    RPC_KIND_OWN_DATA: _ClassVar[RpcKind]
    RPC_KIND_HEALTH: _ClassVar[RpcKind]

class DeadlineClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEADLINE_CLASS_UNSPECIFIED: _ClassVar[DeadlineClass]
    DEADLINE_CLASS_REQUEST: _ClassVar[DeadlineClass]
    DEADLINE_CLASS_LOOKUP: _ClassVar[DeadlineClass]
    DEADLINE_CLASS_LOADING: _ClassVar[DeadlineClass]

class Scope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCOPE_UNSPECIFIED: _ClassVar[Scope]
    SCOPE_GENERATE: _ClassVar[Scope]
    SCOPE_EMBED: _ClassVar[Scope]
    SCOPE_TOKENIZE: _ClassVar[Scope]
    SCOPE_ENDPOINTS_READ: _ClassVar[Scope]
    SCOPE_ENDPOINTS_WRITE: _ClassVar[Scope]
    SCOPE_ADMIN: _ClassVar[Scope]
    SCOPE_METRICS: _ClassVar[Scope]
RPC_KIND_UNSPECIFIED: RpcKind
RPC_KIND_INFERENCE: RpcKind
RPC_KIND_LOOKUP: RpcKind
RPC_KIND_CHANGE: RpcKind
RPC_KIND_MONITORING: RpcKind
RPC_KIND_OWN_DATA: RpcKind
RPC_KIND_HEALTH: RpcKind
DEADLINE_CLASS_UNSPECIFIED: DeadlineClass
DEADLINE_CLASS_REQUEST: DeadlineClass
DEADLINE_CLASS_LOOKUP: DeadlineClass
DEADLINE_CLASS_LOADING: DeadlineClass
SCOPE_UNSPECIFIED: Scope
SCOPE_GENERATE: Scope
SCOPE_EMBED: Scope
SCOPE_TOKENIZE: Scope
SCOPE_ENDPOINTS_READ: Scope
SCOPE_ENDPOINTS_WRITE: Scope
SCOPE_ADMIN: Scope
SCOPE_METRICS: Scope
POLICY_FIELD_NUMBER: _ClassVar[int]
policy: _descriptor.FieldDescriptor

class RpcPolicy(_message.Message):
    __slots__ = ("kind", "deadline_class", "scopes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_CLASS_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    kind: RpcKind
    deadline_class: DeadlineClass
    scopes: _containers.RepeatedScalarFieldContainer[Scope]
    def __init__(self, kind: _Optional[_Union[RpcKind, str]] = ..., deadline_class: _Optional[_Union[DeadlineClass, str]] = ..., scopes: _Optional[_Iterable[_Union[Scope, str]]] = ...) -> None: ...

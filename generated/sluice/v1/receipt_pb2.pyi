from sluice.v1 import rpc_pb2 as _rpc_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListReceiptKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReceiptKeysResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[ReceiptKey]
    def __init__(self, keys: _Optional[_Iterable[_Union[ReceiptKey, _Mapping]]] = ...) -> None: ...

class ReceiptKey(_message.Message):
    __slots__ = ("id", "public_key")
    ID_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    id: str
    public_key: bytes
    def __init__(self, id: _Optional[str] = ..., public_key: _Optional[bytes] = ...) -> None: ...

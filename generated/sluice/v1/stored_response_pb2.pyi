from buf.validate import validate_pb2 as _validate_pb2
from sluice.v1 import response_item_pb2 as _response_item_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetResponseRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetResponseResponse(_message.Message):
    __slots__ = ("response", "client_data")
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_DATA_FIELD_NUMBER: _ClassVar[int]
    response: _response_item_pb2.Response
    client_data: bytes
    def __init__(self, response: _Optional[_Union[_response_item_pb2.Response, _Mapping]] = ..., client_data: _Optional[bytes] = ...) -> None: ...

class CancelResponseRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class CancelResponseResponse(_message.Message):
    __slots__ = ("response", "client_data")
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_DATA_FIELD_NUMBER: _ClassVar[int]
    response: _response_item_pb2.Response
    client_data: bytes
    def __init__(self, response: _Optional[_Union[_response_item_pb2.Response, _Mapping]] = ..., client_data: _Optional[bytes] = ...) -> None: ...

class FollowResponseRequest(_message.Message):
    __slots__ = ("id", "starting_after")
    ID_FIELD_NUMBER: _ClassVar[int]
    STARTING_AFTER_FIELD_NUMBER: _ClassVar[int]
    id: str
    starting_after: int
    def __init__(self, id: _Optional[str] = ..., starting_after: _Optional[int] = ...) -> None: ...

class DeleteResponseRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DeleteResponseResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReplayResponseRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ReplayResponseResponse(_message.Message):
    __slots__ = ("receipt", "differences")
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    receipt: str
    differences: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, receipt: _Optional[str] = ..., differences: _Optional[_Iterable[str]] = ...) -> None: ...

class ListInputItemsRequest(_message.Message):
    __slots__ = ("id", "page_size", "after", "descending", "page_token")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    DESCENDING_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    page_size: int
    after: str
    descending: bool
    page_token: str
    def __init__(self, id: _Optional[str] = ..., page_size: _Optional[int] = ..., after: _Optional[str] = ..., descending: _Optional[bool] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListInputItemsResponse(_message.Message):
    __slots__ = ("items", "has_more", "next_page_token")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[StoredInputItem]
    has_more: bool
    next_page_token: str
    def __init__(self, items: _Optional[_Iterable[_Union[StoredInputItem, _Mapping]]] = ..., has_more: _Optional[bool] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class StoredInputItem(_message.Message):
    __slots__ = ("id", "item")
    ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    id: str
    item: _response_item_pb2.InputItem
    def __init__(self, id: _Optional[str] = ..., item: _Optional[_Union[_response_item_pb2.InputItem, _Mapping]] = ...) -> None: ...

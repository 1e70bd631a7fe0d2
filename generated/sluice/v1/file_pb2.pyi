import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from sluice.v1 import rpc_pb2 as _rpc_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FilePurpose(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILE_PURPOSE_UNSPECIFIED: _ClassVar[FilePurpose]
    FILE_PURPOSE_BATCH: _ClassVar[FilePurpose]
    FILE_PURPOSE_BATCH_OUTPUT: _ClassVar[FilePurpose]

class BatchOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCH_OUTCOME_UNSPECIFIED: _ClassVar[BatchOutcome]
    BATCH_OUTCOME_SUCCEEDED: _ClassVar[BatchOutcome]
    BATCH_OUTCOME_FAILED: _ClassVar[BatchOutcome]
FILE_PURPOSE_UNSPECIFIED: FilePurpose
FILE_PURPOSE_BATCH: FilePurpose
FILE_PURPOSE_BATCH_OUTPUT: FilePurpose
BATCH_OUTCOME_UNSPECIFIED: BatchOutcome
BATCH_OUTCOME_SUCCEEDED: BatchOutcome
BATCH_OUTCOME_FAILED: BatchOutcome

class File(_message.Message):
    __slots__ = ("id", "created", "num_bytes", "filename", "purpose", "expires", "batch_id", "outcome")
    ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    NUM_BYTES_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    id: str
    created: _timestamp_pb2.Timestamp
    num_bytes: int
    filename: str
    purpose: FilePurpose
    expires: _timestamp_pb2.Timestamp
    batch_id: str
    outcome: BatchOutcome
    def __init__(self, id: _Optional[str] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., num_bytes: _Optional[int] = ..., filename: _Optional[str] = ..., purpose: _Optional[_Union[FilePurpose, str]] = ..., expires: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., batch_id: _Optional[str] = ..., outcome: _Optional[_Union[BatchOutcome, str]] = ...) -> None: ...

class UploadFileRequest(_message.Message):
    __slots__ = ("description", "content")
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    description: FileDescription
    content: bytes
    def __init__(self, description: _Optional[_Union[FileDescription, _Mapping]] = ..., content: _Optional[bytes] = ...) -> None: ...

class FileDescription(_message.Message):
    __slots__ = ("filename", "purpose", "expires_after_seconds")
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AFTER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    filename: str
    purpose: FilePurpose
    expires_after_seconds: int
    def __init__(self, filename: _Optional[str] = ..., purpose: _Optional[_Union[FilePurpose, str]] = ..., expires_after_seconds: _Optional[int] = ...) -> None: ...

class UploadFileResponse(_message.Message):
    __slots__ = ("file",)
    FILE_FIELD_NUMBER: _ClassVar[int]
    file: File
    def __init__(self, file: _Optional[_Union[File, _Mapping]] = ...) -> None: ...

class GetFileRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetFileResponse(_message.Message):
    __slots__ = ("file",)
    FILE_FIELD_NUMBER: _ClassVar[int]
    file: File
    def __init__(self, file: _Optional[_Union[File, _Mapping]] = ...) -> None: ...

class ListFilesRequest(_message.Message):
    __slots__ = ("page_size", "after", "descending", "purpose", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    DESCENDING_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    after: str
    descending: bool
    purpose: FilePurpose
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., after: _Optional[str] = ..., descending: _Optional[bool] = ..., purpose: _Optional[_Union[FilePurpose, str]] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListFilesResponse(_message.Message):
    __slots__ = ("files", "has_more", "next_page_token")
    FILES_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[File]
    has_more: bool
    next_page_token: str
    def __init__(self, files: _Optional[_Iterable[_Union[File, _Mapping]]] = ..., has_more: _Optional[bool] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteFileRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DeleteFileResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RecordFileSizeRequest(_message.Message):
    __slots__ = ("id", "num_bytes")
    ID_FIELD_NUMBER: _ClassVar[int]
    NUM_BYTES_FIELD_NUMBER: _ClassVar[int]
    id: str
    num_bytes: int
    def __init__(self, id: _Optional[str] = ..., num_bytes: _Optional[int] = ...) -> None: ...

class RecordFileSizeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DownloadFileRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DownloadFileResponse(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

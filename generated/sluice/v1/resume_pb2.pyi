from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ResumeOptions(_message.Message):
    __slots__ = ("stream", "position", "sequence_number", "replay")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FIELD_NUMBER: _ClassVar[int]
    stream: bytes
    position: bytes
    sequence_number: int
    replay: bool
    def __init__(self, stream: _Optional[bytes] = ..., position: _Optional[bytes] = ..., sequence_number: _Optional[int] = ..., replay: _Optional[bool] = ...) -> None: ...

from buf.validate import validate_pb2 as _validate_pb2
from sluice.v1 import rpc_pb2 as _rpc_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class DetectWatermarkRequest(_message.Message):
    __slots__ = ("model", "text")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    model: str
    text: str
    def __init__(self, model: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class DetectWatermarkResponse(_message.Message):
    __slots__ = ("z_score", "num_tokens", "green_fraction", "p_value")
    Z_SCORE_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GREEN_FRACTION_FIELD_NUMBER: _ClassVar[int]
    P_VALUE_FIELD_NUMBER: _ClassVar[int]
    z_score: float
    num_tokens: int
    green_fraction: float
    p_value: float
    def __init__(self, z_score: _Optional[float] = ..., num_tokens: _Optional[int] = ..., green_fraction: _Optional[float] = ..., p_value: _Optional[float] = ...) -> None: ...

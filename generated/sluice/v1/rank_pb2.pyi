import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from sluice.v1 import rpc_pb2 as _rpc_pb2
from sluice.v1 import serving_pb2 as _serving_pb2
from sluice.v1 import usage_pb2 as _usage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RankRequest(_message.Message):
    __slots__ = ("model", "query", "documents", "top_n", "options", "serving")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    TOP_N_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    model: str
    query: str
    documents: _containers.RepeatedScalarFieldContainer[str]
    top_n: int
    options: RankOptions
    serving: _serving_pb2.ServingOptions
    def __init__(self, model: _Optional[str] = ..., query: _Optional[str] = ..., documents: _Optional[_Iterable[str]] = ..., top_n: _Optional[int] = ..., options: _Optional[_Union[RankOptions, _Mapping]] = ..., serving: _Optional[_Union[_serving_pb2.ServingOptions, _Mapping]] = ...) -> None: ...

class RankOptions(_message.Message):
    __slots__ = ("max_tokens_per_document", "instruction", "raw_scores")
    MAX_TOKENS_PER_DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    RAW_SCORES_FIELD_NUMBER: _ClassVar[int]
    max_tokens_per_document: int
    instruction: str
    raw_scores: bool
    def __init__(self, max_tokens_per_document: _Optional[int] = ..., instruction: _Optional[str] = ..., raw_scores: _Optional[bool] = ...) -> None: ...

class RankResponse(_message.Message):
    __slots__ = ("id", "created", "model", "results", "usage")
    ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    created: _timestamp_pb2.Timestamp
    model: str
    results: _containers.RepeatedCompositeFieldContainer[RankedDocument]
    usage: _usage_pb2.Usage
    def __init__(self, id: _Optional[str] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., model: _Optional[str] = ..., results: _Optional[_Iterable[_Union[RankedDocument, _Mapping]]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ...) -> None: ...

class RankedDocument(_message.Message):
    __slots__ = ("index", "score")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    index: int
    score: float
    def __init__(self, index: _Optional[int] = ..., score: _Optional[float] = ...) -> None: ...

class ScoreRequest(_message.Message):
    __slots__ = ("model", "queries", "documents", "options", "serving")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    model: str
    queries: _containers.RepeatedScalarFieldContainer[str]
    documents: _containers.RepeatedScalarFieldContainer[str]
    options: RankOptions
    serving: _serving_pb2.ServingOptions
    def __init__(self, model: _Optional[str] = ..., queries: _Optional[_Iterable[str]] = ..., documents: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[RankOptions, _Mapping]] = ..., serving: _Optional[_Union[_serving_pb2.ServingOptions, _Mapping]] = ...) -> None: ...

class ScoreResponse(_message.Message):
    __slots__ = ("id", "created", "model", "scores", "usage")
    ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    created: _timestamp_pb2.Timestamp
    model: str
    scores: _containers.RepeatedScalarFieldContainer[float]
    usage: _usage_pb2.Usage
    def __init__(self, id: _Optional[str] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., model: _Optional[str] = ..., scores: _Optional[_Iterable[float]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ...) -> None: ...

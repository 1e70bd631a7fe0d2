"""The interface of translators; a dialect creates one for each request.

A new dialect consists of implementations of this protocol and a module of routes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from sluice.inference.inference_pb2 import ModelInferRequest
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.completion_pb2 import CompleteRequest
from sluice.v1.embedding_pb2 import EmbedRequest
from sluice.v1.model_pb2 import KeepModelRequest
from sluice.v1.rank_pb2 import RankRequest, ScoreRequest
from sluice.v1.response_pb2 import CreateResponseRequest
from sluice.v1.text_generation_pb2 import GenerateTextRequest

from gateway.dialects.seam.encoder import Encoder, StreamFormat
from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest

ServiceRequest: TypeAlias = (
    ChatRequest
    | CompleteRequest
    | EmbedRequest
    | KeepModelRequest
    | GenerateTextRequest
    | CreateResponseRequest
    | RankRequest
    | ScoreRequest
    | ModelInferRequest
)
RequestT_co = TypeVar("RequestT_co", bound=ServiceRequest, covariant=True)


@dataclass(frozen=True, slots=True)
class ParsedRequest(Generic[RequestT_co]):
    """A parsed request.

    The type of `request` selects the RPC; those for embeddings, ranks and models don't stream. `caller_name` maps a
    field path of the contract (`serving.priority`, `messages.0.content.0.text`) to the caller's name.
    `affinity` is the caller's prompt cache key, or empty. `timeout_s` is the caller's timeout for the whole
    answer; None means the gateway's limit.
    """

    request: RequestT_co
    stream: bool
    encoder: Encoder
    caller_name: Callable[[str], str]
    affinity: str = ""
    timeout_s: float | None = None
    stream_format: StreamFormat = StreamFormat.EVENTS


class Translator(Protocol):
    """Translates one request of a dialect, and its failure."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[ServiceRequest]:
        """Parse a request. Raise Failure with the caller's field names."""

    def error_response(self, failure: Failure) -> ErrorResponse:
        """Return the error response for a failure."""

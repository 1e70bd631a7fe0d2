"""MindIE and Triton: raw text generation at `/v2/models/{model}[/versions/{version}]/generate[_stream]`.

Where the specification and the clients of Triton's generate extension differ, both forms are accepted: `max_tokens` is
an alias of `max_new_tokens`, and a `stream` that agrees with the path has no effect.
"""

from __future__ import annotations

from typing import Final

import msgspec
from sluice.v1.text_generation_pb2 import GenerateTextRequest

from gateway.dialects.mindie.body import GenerateBody
from gateway.dialects.mindie.encoder import MindieEncoder
from gateway.dialects.mindie.error import MindieErrors
from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.translator import ParsedRequest

_DECODER: Final = msgspec.json.Decoder(GenerateBody)


class MindieTranslator(MindieErrors):
    """Translates one request; `stream` is true for the streaming path."""

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream
        self._body: GenerateBody | None = None  # the parsed body, if it was valid

    def parse(self, http_request: HttpRequest) -> ParsedRequest[GenerateTextRequest]:
        """Parse a request. Raise Failure."""
        self._body = body = decode(http_request.body, _DECODER)
        body.check(stream=self._stream)
        given = body.given
        return ParsedRequest(
            request=body.to_request(http_request.path["model"], http_request.path.get("version", "")),
            stream=self._stream,
            encoder=MindieEncoder(body.id, details=bool(given.details), perf_stat=bool(given.perf_stat)),
            caller_name=body.caller_name,
            timeout_s=given.timeout,
        )

    def error_response(self, failure: Failure) -> ErrorResponse:
        """Return the error response for a failure."""
        return super().error_response(failure if self._body is None else self._body.converted(failure))

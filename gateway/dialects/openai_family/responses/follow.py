"""The parser of requests for the events of a response in the background; dialects differ in their errors only."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.openai_family.responses.encoder import ResponseEncoder
from gateway.dialects.openai_family.responses.response_object import ResponseObject
from gateway.dialects.openai_family.responses.stored import caller_name, to_follow
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

_LAST_EVENT_ID: Final = "last-event-id"


class FollowParser:
    """Parses one request. A dialect combines it with a class that creates error responses."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[Any]:
        """Parse a request, which has no model. Raise Failure."""
        if _LAST_EVENT_ID in http_request.headers:
            raise Failure.of_field(_LAST_EVENT_ID, "is not supported for responses; use starting_after")
        request = to_follow(http_request.path, http_request.query)
        encoder = ResponseEncoder(ResponseObject.from_client_data(b""))
        return ParsedRequest(request=request, stream=True, encoder=encoder, caller_name=caller_name)

"""The parser of response requests; dialects differ in their error responses only."""

from __future__ import annotations

import uuid
from typing import ClassVar

import msgspec
from sluice.v1 import chat_pb2, response_pb2

from gateway.dialects.openai_family.responses.body import ResponseBody
from gateway.dialects.openai_family.responses.encoder import ResponseEncoder
from gateway.dialects.openai_family.responses.response_object import ResponseObject
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.request_id import idempotency_key
from gateway.dialects.seam.translator import ParsedRequest


class ResponseReader:
    """Parses one response request. A dialect combines it with a class that creates error responses."""

    encoder: ClassVar[type[ResponseEncoder]] = ResponseEncoder
    default_effort: ClassVar[chat_pb2.ReasoningEffort] = chat_pb2.REASONING_EFFORT_UNSPECIFIED
    decoder: ClassVar[msgspec.json.Decoder[ResponseBody]] = msgspec.json.Decoder(ResponseBody)

    def parse(self, http_request: HttpRequest) -> ParsedRequest[response_pb2.CreateResponseRequest]:
        """Parse a request. Raise Failure."""
        body = decode(http_request.body, self.decoder)
        self.check(body)
        request = body.to_request(self.model(http_request, body))
        request.default_reasoning_effort = self.default_effort
        response = ResponseObject.from_body(body)
        if request.store:
            request.client_data = response.client_data()
        if request.background:  # a call that is repeated must not create a second one
            request.serving.request_id = idempotency_key(http_request.headers) or uuid.uuid4().hex
        elif (request.store or request.conversation) and not idempotency_key(http_request.headers):
            request.response_id = uuid.uuid4().hex  # the gateway may have to repeat a call whose outcome is unknown
        return ParsedRequest(
            request=request,
            stream=bool(body.stream),
            encoder=self.encoder(response),
            caller_name=body.caller_name,
            affinity=body.prompt_cache_key or "",
        )

    def check(self, body: ResponseBody) -> None:
        """Raise Failure for requests that only this dialect rejects."""

    def model(self, http_request: HttpRequest, body: ResponseBody) -> str:  # noqa: ARG002  for other dialects
        """Return the name of the requested model, or an empty string. Raise Failure."""
        return body.model or ""

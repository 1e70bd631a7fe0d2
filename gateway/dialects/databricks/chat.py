"""Chat requests and answers of Databricks.

Databricks documents the object of a whole answer as `chat.completions`; on the base path for OpenAI's clients it stays
`chat.completion`. The documented default of `reasoning_effort` is `medium`; answers contain the effective value.
"""

from __future__ import annotations

from typing import Final

import msgspec
from sluice.v1 import chat_pb2

from gateway.dialects.databricks.defaults import DEFAULT_EFFORT
from gateway.dialects.databricks.error import DatabricksErrors, DatabricksStream
from gateway.dialects.databricks.target import check_extra_params, endpoint_name, wants_stream
from gateway.dialects.databricks.tool import check_tools
from gateway.dialects.openai_family.chat.body import ChatBody
from gateway.dialects.openai_family.chat.encoder import ChatEncoder
from gateway.dialects.openai_family.parameters.stream_options import StreamOptions, request_usage
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.model_name import ModelName
from gateway.dialects.seam.translator import ParsedRequest


class DatabricksChatBody(ChatBody, kw_only=True):
    """The body of a chat."""

    model: ModelName = None
    stream_options: StreamOptions | None = None
    prompt_cache_key: str | None = None
    extra_params: dict[str, str] | None = None
    client_request_id: str | None = None
    usage_context: dict[str, str] | None = None
    user: str | None = None

    def check(self) -> None:
        """Raise Failure if there are more tools, or more parameters of one tool, than the documented limits."""
        check_extra_params(self.extra_params)
        check_tools(
            [(f"tools.{i}.function.parameters", tool.function.parameters) for i, tool in enumerate(self.tools or ())]
        )

    def to_request(self, model: str) -> chat_pb2.ChatRequest:
        """Return the contract's request. Raise Failure for a value outside the contract's types."""
        request = super().to_request(model)
        request.default_reasoning_effort = DEFAULT_EFFORT
        return request


_DECODER: Final = msgspec.json.Decoder(DatabricksChatBody)


class DatabricksChatEncoder(DatabricksStream, ChatEncoder):
    """Encodes an answer on the base path."""

    includes_effort = True


class InvocationChatEncoder(DatabricksChatEncoder):
    """Encodes an answer of an endpoint's invocations."""

    whole_object = "chat.completions"


class DatabricksChatTranslator(DatabricksErrors):
    """Translates one chat request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[chat_pb2.ChatRequest]:
        """Parse a request. Raise Failure."""
        body = decode(http_request.body, _DECODER)
        body.check()
        stream = wants_stream(http_request, stream=body.stream)
        encoder = InvocationChatEncoder if "name" in http_request.path else DatabricksChatEncoder
        request = body.to_request(endpoint_name(http_request, body.model))
        usage = request_usage(request, body.stream_options, stream=stream)
        return ParsedRequest(
            request=request,
            stream=stream,
            encoder=encoder(usage=usage, has_logprobs=bool(body.logprobs)),
            caller_name=body.caller_name,
            affinity=body.prompt_cache_key or "",
        )

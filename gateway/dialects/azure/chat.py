"""Chat completion of the Azure AI model inference API.

The header `extra-parameters` controls parameters that the API doesn't define.
"""

from __future__ import annotations

from typing import Final

import msgspec
from sluice.v1 import chat_pb2

from gateway.dialects.azure.error import AzureErrors, error_body
from gateway.dialects.azure.message import AzureMessage, part_name
from gateway.dialects.azure.request import check_version, deployment, read_body
from gateway.dialects.openai_family.chat.body import ChatBody
from gateway.dialects.openai_family.chat.conversation import Conversation
from gateway.dialects.openai_family.chat.encoder import ChatEncoder
from gateway.dialects.openai_family.parameters.sampling import OpenAINumbers
from gateway.dialects.openai_family.parameters.stream_options import StreamOptions, request_usage
from gateway.dialects.seam.caller_name import dotted
from gateway.dialects.seam.contract_limit import check_text
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

NAMED: Final = frozenset(
    {
        "model",
        "messages",
        "max_tokens",
        "max_completion_tokens",
        "response_format",
        "seed",
        "stop",
        "stream",
        "stream_options",  # of its newer versions
        "tools",
        "tool_choice",
        *OpenAINumbers.__struct_fields__,
    }
)


class AzureChatBody(ChatBody, kw_only=True):
    """The body of `POST /chat/completions`. Fields that are not in NAMED are extra parameters."""

    model: str | None = None
    messages: list[AzureMessage]  # type: ignore[assignment]  # a part of theirs may be written in two ways
    stream_options: StreamOptions | None = None

    def to_chat(self, name: str) -> chat_pb2.ChatRequest:
        """Return the contract's request to the deployment `name`, if one is requested. Its model may be empty.

        Raise Failure.
        """
        check_text(chat_pb2.ChatRequest, "model", self.model, "model")  # a deployment may replace it
        request = self.to_request(self.model or "")
        request.serving.deployment = name
        return request

    def caller_name(self, field: str) -> str:
        """Return the caller's name of `field`; unlike in other chats, a part's text may be in `content`."""
        path = Conversation(self.messages).caller_path(dotted(field))
        return part_name(self.messages, path) or super().caller_name(field)


_DECODER: Final = msgspec.json.Decoder(AzureChatBody)


class AzureEncoder(ChatEncoder):
    """Encodes an answer for Azure's clients."""

    ping = b""  # its clients fail on lines other than data

    def error(self, failure: Failure) -> bytes:
        """Return the last event of a failed stream. It has a name because its clients skip data without choices."""
        return b"event: error\ndata: " + error_body(failure) + b"\n\n"


class AzureTranslator(AzureErrors):
    """Translates one chat request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[chat_pb2.ChatRequest]:
        """Parse a request. Raise Failure."""
        self._http_request = http_request
        check_version(http_request)
        body = read_body(http_request, _DECODER, NAMED)
        request = body.to_chat(deployment(http_request))
        usage = request_usage(request, body.stream_options, stream=body.stream)
        return ParsedRequest(
            request=request,
            stream=bool(body.stream),
            encoder=AzureEncoder(usage=usage, has_logprobs=bool(body.logprobs)),
            caller_name=body.caller_name,
        )

"""The Azure AI model inference API: its chat completion.

Parameters that the API doesn't define itself come by the header `extra-parameters`.
"""

from __future__ import annotations

from typing import Final

import msgspec
from sluice.v1 import chat_pb2

from gateway.dialects.azure.error import AzureErrors, error_body
from gateway.dialects.azure.message import AzureMessage, part_name
from gateway.dialects.azure.request import check_version, deployment, read_body
from gateway.dialects.openai_family.chat.body import ChatBody
from gateway.dialects.openai_family.chat.encoder import ChatEncoder
from gateway.dialects.openai_family.parameters.stream_options import StreamOptions, ask_usage
from gateway.dialects.seam.caller_name import dotted
from gateway.dialects.seam.contract_limit import check_text
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

NAMED: Final = frozenset(
    {
        "model",
        "messages",
        "frequency_penalty",
        "presence_penalty",
        "max_tokens",
        "response_format",
        "seed",
        "stop",
        "stream",
        "temperature",
        "tools",
        "tool_choice",
        "top_p",
    }
)


class AzureChatBody(ChatBody, kw_only=True):
    """The body of `POST /chat/completions`. Those not in NAMED are extra parameters."""

    model: str | None = None
    messages: list[AzureMessage]  # type: ignore[assignment]  # a part of theirs may be written in two ways
    stream_options: StreamOptions | None = None

    def to_chat(self, name: str) -> chat_pb2.ChatRequest:
        """The contract's request to the deployment `name`, if one is asked for. Its model may be empty.

        Raises Failure.
        """
        check_text(chat_pb2.ChatRequest, "model", self.model, "model")  # a deployment may take its place
        request = self.to_request(self.model or "")
        request.serving.deployment = name
        return request

    def caller_name(self, field: str) -> str:
        """As of all chats, but that a part's text may be in `content`."""
        return part_name(self.messages, dotted(field)) or super().caller_name(field)


_DECODER: Final = msgspec.json.Decoder(AzureChatBody)


class AzureEncoder(ChatEncoder):
    """Azure's answers."""

    ping = b""  # its clients raise on a line that is not data

    def error(self, failure: Failure) -> bytes:
        """The last event of a stream that failed. It has a name, since its clients skip data without choices."""
        return b"event: error\ndata: " + error_body(failure) + b"\n\n"


class AzureTranslator(AzureErrors):
    """Translates one chat request."""

    def parse(self, arrival: HttpRequest) -> ParsedRequest[chat_pb2.ChatRequest]:
        """Read a request. Raises Failure."""
        self._arrival = arrival
        check_version(arrival)
        body = read_body(arrival, _DECODER, NAMED)
        request = body.to_chat(deployment(arrival))
        usage = ask_usage(request, body.stream_options, stream=body.stream)
        return ParsedRequest(
            request=request,
            stream=bool(body.stream),
            encoder=AzureEncoder(usage=usage, has_logprobs=bool(body.logprobs)),
            caller_name=body.caller_name,
        )

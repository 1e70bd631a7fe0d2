"""The OpenAI style: its chat request, with every field of OpenAI's chat completions API.

Which fields have effect, which are accepted without effect, and which are refused, since to ignore them would mislead
the caller, is in the table of docs/api/openai.md; a test tries every row of it.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

import msgspec
from sluice.v1 import chat_pb2

from gateway.dialects.openai.error import OpenAIErrors, OpenAIStreamErrors
from gateway.dialects.openai_family.chat_body import ChatBody
from gateway.dialects.openai_family.chat_encoder import ChatEncoder
from gateway.dialects.openai_family.stream_options import StreamOptions, wants_usage
from gateway.dialects.seam.arrival import Arrival
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import decode, is_given
from gateway.dialects.seam.translator import ParsedRequest

_REFUSED: Final = {
    "audio": "audio output is not available",
    "function_call": "deprecated; use tool_choice",
    "functions": "deprecated; use tools",
    "moderation": "moderation is not available",
    "web_search_options": "web search is not available",
}


class ChatCompletionBody(ChatBody, kw_only=True):
    """The body of `POST /v1/chat/completions`. Fields of type Raw are looked at, not read."""

    model: str
    prompt_cache_key: str | None = None
    stream_options: StreamOptions | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    service_tier: str | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    user: str | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    prompt_cache_retention: str | None = None
    prediction: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    prompt_cache_options: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    audio: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    function_call: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    functions: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    moderation: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    web_search_options: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)

    def check(self) -> None:
        """Raise Failure for what this server would have to ignore, and for fields that contradict each other."""
        for name, why in _REFUSED.items():
            if is_given(getattr(self, name)):
                raise Failure.of_field(name, f"not supported: {why}", Reason.UNSUPPORTED_FIELD)
        if self.store:
            raise Failure.of_field("store", "must be false: answers are not stored", Reason.UNSUPPORTED_FIELD)
        if "audio" in (self.modalities or ()):
            raise Failure.of_field("modalities", 'must be ["text"]', Reason.UNSUPPORTED_FIELD)
        if self.service_tier not in {None, "auto", "default"}:
            raise Failure.of_field("service_tier", "must be auto or default", Reason.UNSUPPORTED_FIELD)

    def to_chat(self) -> chat_pb2.ChatRequest:
        """The contract's request. Raises Failure for what can't be served or held."""
        self.check()
        return self.to_request(self.model)


class OpenAIEncoder(OpenAIStreamErrors, ChatEncoder):
    """OpenAI's answers."""


class OpenAITranslator(OpenAIErrors):
    """Translates one request of the OpenAI style."""

    decoder: ClassVar = msgspec.json.Decoder(ChatCompletionBody)

    def parse(self, arrival: Arrival) -> ParsedRequest[chat_pb2.ChatRequest]:
        """Read a chat request. Raises Failure."""
        body = decode(arrival.body, self.decoder)
        include_usage = wants_usage(body.stream_options, stream=body.stream)
        return ParsedRequest(
            request=body.to_chat(),
            stream=bool(body.stream),
            encoder=OpenAIEncoder(include_usage=include_usage, has_logprobs=bool(body.logprobs)),
            caller_name=body.caller_name,
            affinity=body.prompt_cache_key or "",
        )

"""Tokenization in vLLM's form, and the token count of a response's input in OpenAI's.

`POST /tokenize`, `POST /detokenize` and `POST /v1/responses/input_tokens`: docs/api/extensions.md has their fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson
from google.protobuf.message import Message
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.token_pb2 import (
    CountTokensRequest,
    CountTokensResponse,
    DetokenizeTextRequest,
    DetokenizeTextResponse,
    TokenizeTextRequest,
)

from gateway.dialects.openai.chat import ChatCompletionBody
from gateway.dialects.openai.chat_tool import ChatTool
from gateway.dialects.openai.response import OpenAIResponseTranslator
from gateway.dialects.openai_family.chat.message import ChatMessage
from gateway.dialects.seam.caller_name import dotted, renamed
from gateway.dialects.seam.contract_limit import check_length
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.model_name import ModelName

_OF_CHAT: Final = ("tools", "chat_template", "chat_template_kwargs", "add_generation_prompt", "continue_final_message")


class TokenizeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /tokenize`: a text, or a conversation with the parameters of its template."""

    model: ModelName = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    tools: list[ChatTool] | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, msgspec.Raw] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None

    def to_request(self) -> CountTokensRequest:
        """Return the contract's request. Raise Failure unless exactly one of text and conversation is given."""
        if (self.prompt is None) == (self.messages is None):
            reason = Reason.MISSING_FIELD if self.prompt is None else Reason.INVALID_FIELD
            raise Failure.of_field("prompt", "either prompt or messages is required", reason)
        if self.prompt is None:
            return CountTokensRequest(chat=self._to_chat(), return_tokens=True)
        for name in _OF_CHAT:
            if getattr(self, name) is not None:
                raise Failure.of_field(name, "only allowed with messages")
        text = TokenizeTextRequest(model=self.model or "", text=self.prompt)
        if self.add_special_tokens is not None:
            text.add_special_tokens = self.add_special_tokens
        return CountTokensRequest(text=text, return_tokens=True)

    def caller_name(self, field: str) -> str:
        """Return the caller's name of the contract's `field`."""
        if self.prompt is not None:
            return renamed(dotted(field), {"text.text": "prompt", "text": ""})
        return self._chat_body().caller_name(field.removeprefix("chat."))

    def _to_chat(self) -> ChatRequest:
        if self.add_special_tokens:
            text = "must be false with messages: the template has the tokens that belong there"
            raise Failure.of_field("add_special_tokens", text, Reason.UNSUPPORTED_FIELD)
        return self._chat_body().to_chat()

    def _chat_body(self) -> ChatCompletionBody:
        """Return the body of a chat with this prompt."""
        given = {name: getattr(self, name) for name in _OF_CHAT}
        return ChatCompletionBody(model=self.model, messages=self.messages or [], **given)


class DetokenizeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /detokenize`. `skip_special_tokens` is SGLang's."""

    model: ModelName = None
    tokens: list[int]
    skip_special_tokens: bool | None = None

    def to_request(self) -> DetokenizeTextRequest:
        """Return the contract's request. Raise Failure for a value outside the contract's types."""
        check_length(DetokenizeTextRequest, "token_ids", self.tokens, "tokens")
        for index, token_id in enumerate(self.tokens):
            if not 0 <= token_id < 2**32:
                raise Failure.of_field(f"tokens.{index}", f"must be from 0 to {2**32 - 1}")
        request = DetokenizeTextRequest(model=self.model or "", token_ids=self.tokens)
        if self.skip_special_tokens is not None:
            request.skip_special_tokens = self.skip_special_tokens
        return request

    @staticmethod
    def caller_name(field: str) -> str:
        """Return the caller's name of the contract's `field`."""
        return renamed(dotted(field), {"token_ids": "tokens"})


@dataclass(frozen=True, slots=True)
class ParsedTokens:
    """A parsed body: the contract's request, and the mapping to the caller's field names."""

    request: Message
    caller_name: Callable[[str], str]
    serialize: Callable[[Any], bytes]


_TOKENIZE: Final = msgspec.json.Decoder(TokenizeBody)
_DETOKENIZE: Final = msgspec.json.Decoder(DetokenizeBody)


def parse_tokenize(http_request: HttpRequest) -> ParsedTokens:
    """Parse a request to tokenize. Raise Failure."""
    body = decode(http_request.body, _TOKENIZE)
    return ParsedTokens(body.to_request(), body.caller_name, _with_strings if body.return_token_strs else _token_answer)


def parse_detokenize(http_request: HttpRequest) -> ParsedTokens:
    """Parse a request to detokenize. Raise Failure."""
    body = decode(http_request.body, _DETOKENIZE)
    return ParsedTokens(body.to_request(), body.caller_name, _text_answer)


def parse_input_tokens(http_request: HttpRequest) -> ParsedTokens:
    """Parse a response's request to count its input tokens. Raise Failure."""
    parsed = OpenAIResponseTranslator().parse(http_request)

    def caller_name(field: str) -> str:
        return parsed.caller_name(field.removeprefix("response."))

    return ParsedTokens(CountTokensRequest(response=parsed.request), caller_name, _count_answer)


def _token_answer(answer: CountTokensResponse, strings: list[str] | None = None) -> bytes:
    return orjson.dumps(
        {
            "count": answer.num_tokens,
            "max_model_len": answer.max_model_len,
            "tokens": list(answer.token_ids),
            "token_strs": strings,
        }
    )


def _with_strings(answer: CountTokensResponse) -> bytes:
    return _token_answer(answer, [token.decode(errors="replace") for token in answer.tokens])


def _text_answer(answer: DetokenizeTextResponse) -> bytes:
    return orjson.dumps({"prompt": answer.text})


def _count_answer(answer: CountTokensResponse) -> bytes:
    return orjson.dumps({"object": "response.input_tokens", "input_tokens": answer.num_tokens})

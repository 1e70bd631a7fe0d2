"""The routes of Anthropic's Messages API, under /v1/messages."""

from __future__ import annotations

from typing import Final

from gateway.dialects.anthropic.answer import AnthropicError, MessageAnswer, MessageEvent, TokenCountAnswer
from gateway.dialects.anthropic.body import CountTokensBody, MessagesBody
from gateway.dialects.anthropic.error import OVERLOADED, AnthropicErrors
from gateway.dialects.anthropic.header import VERSION, response_headers
from gateway.dialects.anthropic.messages import AnthropicTranslator, parse_count, to_count
from gateway.routes.examples.example import BY_MODEL
from gateway.routes.handling.handler import Change, Generation
from gateway.routes.surface.operation import Body, Operation, Parameter
from gateway.routes.surface.surface import Surface

_MESSAGES: Final = {**BY_MODEL, "messages": [{"role": "user", "content": "Hello!"}]}
_SHARED: Final = (
    Parameter(VERSION, "header", "The version of Anthropic's API; without effect.", "2023-06-01"),
    Parameter("anthropic-beta", "header", "Names of beta features; without effect.", "tools-2024-04-04"),
)

ANTHROPIC: Final = Surface(
    tag="Anthropic",
    error=AnthropicError,
    error_response=AnthropicErrors().error_response,
    prefixes=("/v1/messages",),
    headers=response_headers,
    marked_by=VERSION,
    statuses=(OVERLOADED,),
    operations=(
        Operation("POST", "/v1/messages", "Creates a message.", Generation(AnthropicTranslator),
                  [Body(MessagesBody, _MESSAGES | {"max_tokens": 16}, MessageAnswer, chunk=MessageEvent)],
                  streams=True, parameters=_SHARED),
        Operation("POST", "/v1/messages/count_tokens", "Counts the tokens of a message's prompt.",
                  Change(parse_count, to_count), [Body(CountTokensBody, _MESSAGES, TokenCountAnswer)],
                  parameters=_SHARED),
    ),
)  # fmt: skip

"""Anthropic's `POST /v1/messages` and `POST /v1/messages/count_tokens`.

docs/api/anthropic.md has the tables of their fields; a test tries every row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import msgspec
import orjson
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.token_pb2 import CountTokensRequest, CountTokensResponse

from gateway.dialects.anthropic.body import CountTokensBody, MessagesBody
from gateway.dialects.anthropic.encoder import AnthropicEncoder
from gateway.dialects.anthropic.error import AnthropicErrors
from gateway.dialects.anthropic.known_tool import without_own_fields
from gateway.dialects.anthropic.tool import check_kinds
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.translator import ParsedRequest

_Body = TypeVar("_Body", MessagesBody, CountTokensBody)

_MESSAGES: Final = msgspec.json.Decoder(MessagesBody)
_COUNT: Final = msgspec.json.Decoder(CountTokensBody)


class AnthropicTranslator(AnthropicErrors):
    """Translates one message request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[ChatRequest]:
        """Parse a request. Raise Failure."""
        body = _read(http_request, _MESSAGES)
        request, turns = body.to_request()
        return ParsedRequest(
            request=request,
            stream=bool(body.stream),
            encoder=AnthropicEncoder(body.max_tokens, shows_thinking=body.shows_thinking),
            caller_name=partial(body.caller_name, turns=turns),
        )


@dataclass(frozen=True, slots=True)
class ParsedCount:
    """A parsed request to count tokens."""

    request: CountTokensRequest
    caller_name: Callable[[str], str]


def parse_count(http_request: HttpRequest) -> ParsedCount:
    """Parse a request to count tokens. Raise Failure."""
    body = _read(http_request, _COUNT)
    chat, turns = body.to_chat()

    def caller_name(field: str) -> str:
        return body.caller_name(field.removeprefix("chat."), turns)

    return ParsedCount(CountTokensRequest(chat=chat), caller_name)


def to_count(answer: CountTokensResponse) -> bytes:
    """Return the body of the answer."""
    return orjson.dumps({"input_tokens": answer.num_tokens})


def _read(http_request: HttpRequest, decoder: msgspec.json.Decoder[_Body]) -> _Body:
    """Decode a body. Raise Failure; for an unsupported kind of tool, the failure names it."""
    try:
        return decode(http_request.body, decoder)
    except Failure as failure:
        if not (failure.field or "").startswith("tools."):
            raise
        check_kinds(http_request.body)  # the unknown field belongs to an unsupported kind of tool
        try:
            reduced = without_own_fields(http_request.body)
        except msgspec.MsgspecError:
            raise failure from None
        return decode(reduced, decoder)

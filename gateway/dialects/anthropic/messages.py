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
from gateway.dialects.anthropic.tool import check_kinds
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.translator import ParsedRequest

_Body = TypeVar("_Body", MessagesBody, CountTokensBody)

_MESSAGES: Final = msgspec.json.Decoder(MessagesBody)
_COUNT: Final = msgspec.json.Decoder(CountTokensBody)


class AnthropicTranslator(AnthropicErrors):
    """Translates one request for a message."""

    def parse(self, arrival: HttpRequest) -> ParsedRequest[ChatRequest]:
        """Read a request. Raises Failure."""
        body = _read(arrival, _MESSAGES)
        request, turns = body.to_request()
        return ParsedRequest(
            request=request,
            stream=bool(body.stream),
            encoder=AnthropicEncoder(body.max_tokens, shows_thinking=body.shows_thinking),
            caller_name=partial(body.caller_name, turns=turns),
        )


@dataclass(frozen=True, slots=True)
class ParsedCount:
    """What came of a body to count."""

    request: CountTokensRequest
    caller_name: Callable[[str], str]


def parse_count(arrival: HttpRequest) -> ParsedCount:
    """Read a request to count. Raises Failure."""
    body = _read(arrival, _COUNT)
    chat, turns = body.to_chat()

    def caller_name(field: str) -> str:
        return body.caller_name(field.removeprefix("chat."), turns)

    return ParsedCount(CountTokensRequest(chat=chat), caller_name)


def to_count(answer: CountTokensResponse) -> bytes:
    """The body of the answer."""
    return orjson.dumps({"input_tokens": answer.num_tokens})


def _read(arrival: HttpRequest, decoder: msgspec.json.Decoder[_Body]) -> _Body:
    try:
        return decode(arrival.body, decoder)
    except Failure as failure:
        if (failure.field or "").startswith("tools."):
            check_kinds(arrival.body)  # what is unknown is a field of a kind of tool that isn't
        raise

"""Anthropic's `POST /v1/messages` and `POST /v1/messages/count_tokens`.

docs/api/anthropic.md has the tables of their fields; a test tries every row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
import orjson
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.token_pb2 import CountTokensRequest, CountTokensResponse

from gateway.dialects.anthropic.body import CountTokensBody, MessagesBody
from gateway.dialects.anthropic.encoder import AnthropicEncoder
from gateway.dialects.anthropic.error import AnthropicErrors
from gateway.dialects.seam.arrival import Arrival
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.translator import ParsedRequest

_MESSAGES: Final = msgspec.json.Decoder(MessagesBody)
_COUNT: Final = msgspec.json.Decoder(CountTokensBody)


class AnthropicTranslator(AnthropicErrors):
    """Translates one request for a message."""

    def parse(self, arrival: Arrival) -> ParsedRequest[ChatRequest]:
        """Read a request. Raises Failure."""
        body = decode(arrival.body, _MESSAGES)
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


def parse_count(arrival: Arrival) -> ParsedCount:
    """Read a request to count. Raises Failure."""
    body = decode(arrival.body, _COUNT)
    chat, turns = body.to_chat()

    def caller_name(field: str) -> str:
        return body.caller_name(field.removeprefix("chat."), turns)

    return ParsedCount(CountTokensRequest(chat=chat), caller_name)


def to_count(answer: CountTokensResponse) -> bytes:
    """The body of the answer."""
    return orjson.dumps({"input_tokens": answer.num_tokens})

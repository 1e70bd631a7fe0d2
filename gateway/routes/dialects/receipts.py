"""The route of the public keys of receipts, whose errors are in the OpenAI style."""

from __future__ import annotations

from typing import Final

from gateway.dialects.openai.answer import ErrorAnswer, KeySetAnswer
from gateway.dialects.openai.error import OpenAIErrors
from gateway.dialects.openai.receipt import to_key_set
from gateway.dialects.seam.http_request import HttpRequest
from gateway.routes.handling.handler import Lookup
from gateway.routes.surface.operation import Operation
from gateway.routes.surface.surface import Surface
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller


async def _list_keys(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
    return to_key_set(await upstream.client.list_receipt_keys(caller))


RECEIPTS: Final = Surface(
    tag="Receipts",
    error=ErrorAnswer,
    error_response=OpenAIErrors().error_response,
    prefixes=(),
    operations=(
        Operation("GET", "/v1/receipt_keys", "Returns the public keys that verify receipts, as a JSON Web Key Set.",
                  Lookup(_list_keys), answer=KeySetAnswer),
    ),
)  # fmt: skip

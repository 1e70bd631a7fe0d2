"""The route of the usage of the caller's own key, whose errors are in the OpenAI style."""

from __future__ import annotations

from typing import Final

from gateway.dialects.openai.answer import ErrorAnswer, UsageAnswer
from gateway.dialects.openai.error import OpenAIErrors
from gateway.dialects.openai.usage import to_usage
from gateway.dialects.seam.http_request import HttpRequest
from gateway.routes.handling.handler import Lookup
from gateway.routes.surface.operation import Operation
from gateway.routes.surface.surface import Surface
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller


async def _get_usage(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
    return to_usage(await upstream.client.get_usage(caller))


USAGE: Final = Surface(
    tag="Usage",
    error=ErrorAnswer,
    error_response=OpenAIErrors().error_response,
    prefixes=(),
    operations=(
        Operation("GET", "/v1/usage", "Returns what the caller's key has used, and what is left of its limits.",
                  Lookup(_get_usage), answer=UsageAnswer),
    ),
)  # fmt: skip

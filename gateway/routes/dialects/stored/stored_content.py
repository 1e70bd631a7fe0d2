"""What the operations of stored responses and of conversations share: pages of items, and calls of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import Message

from gateway.dialects.seam.failure import Failure
from gateway.routes.surface.operation import Parameter
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller

PAGE: Final = (
    Parameter("limit", "query", "How many items; 20 by default, and at most 2 MiB if there are several.", "20",
              schema={"type": "integer", "minimum": 1, "maximum": 100}),
    Parameter("order", "query", "`desc`, the default, for the last item first, or `asc`.", "asc",
              schema={"type": "string", "enum": ["asc", "desc"]}),
    Parameter("after", "query", "The id of the last item of the previous page.", "msg_0af3_in0"),
)  # fmt: skip


async def call_service(upstream: Upstream, request: Message, caller: Caller, caller_name: Callable[[str], str]) -> Any:
    """Return the service's reply. Raise Failure with the names that `caller_name` returns for the contract's fields."""
    try:
        return await upstream.client.call(request, caller)
    except Failure as failure:
        raise failure.renamed(caller_name) from None

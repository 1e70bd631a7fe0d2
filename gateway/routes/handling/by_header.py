"""Choose between two dialects that share a path by a header that one dialect's clients always send."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.dialects.seam.error_response import ToErrorResponse
from gateway.http.headers import headers_of
from gateway.routes.handling.handler import Lookup
from gateway.routes.handling.response_headers import SendHeaders, WithResponseHeaders
from gateway.routes.upstream.upstream import Upstream
from gateway.settings.config import Settings


@dataclass(frozen=True, slots=True)
class OtherDialect:
    """The dialect that answers requests with the header `marked_by`: its lookup, headers and types of bodies."""

    marked_by: str
    lookup: Lookup
    answer: type
    error: type
    error_response: ToErrorResponse
    headers: SendHeaders


@dataclass(frozen=True, slots=True)
class ByHeader:
    """Two lookups on one path: the surface's own, and the other dialect's."""

    default: Lookup
    other: OtherDialect

    def endpoint(self, upstream: Upstream, error_response: ToErrorResponse, settings: Settings) -> ASGIApp:
        """Return the ASGI application."""
        default = self.default.endpoint(upstream, error_response, settings)
        other = WithResponseHeaders(
            self.other.lookup.endpoint(upstream, self.other.error_response, settings), self.other.headers
        )

        async def choose(scope: Scope, receive: Receive, send: Send) -> None:
            is_other = self.other.marked_by in headers_of(scope)
            await (other if is_other else default)(scope, receive, send)

        return choose

"""Surfaces: the routes that one dialect adds to the application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.routing import Match, Route
from starlette.types import ASGIApp, Scope

from gateway.dialects.seam.encoder import StreamFormat
from gateway.dialects.seam.error_response import ErrorResponse, ToErrorResponse
from gateway.dialects.seam.failure import Failure
from gateway.http.headers import headers_of
from gateway.routes.handling.response_headers import SendHeaders, WithResponseHeaders, send_no_headers
from gateway.routes.surface.operation import Operation
from gateway.routes.upstream.upstream import Upstream
from gateway.settings.config import Settings


class ClosedRoute(Route):
    """A route that matches its path with every method, so that no later route with a longer name gets the request."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return FULL for other methods too; the handler then rejects the method."""
        match, child_scope = super().matches(scope)
        return (match if match is Match.NONE else Match.FULL), child_scope


class UnmarkedRoute(Route):
    """A route that does not match requests with a header that only another dialect's clients send."""

    def __init__(self, header: str, path: str, endpoint: ASGIApp, methods: list[str]) -> None:
        super().__init__(path, endpoint, methods=methods)
        self._header = header

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return NONE for the other dialect's clients, for which the path does not exist."""
        if self._header in headers_of(scope):
            return Match.NONE, {}
        return super().matches(scope)


@dataclass(frozen=True, slots=True)
class Surface:
    """One dialect's operations, in the order in which paths are matched.

    `prefixes` are path prefixes of whole segments (`/v1`, `/serving-endpoints`). Errors under them that belong to no
    route (404, 405, unexpected ones) have the format of `error_response`; so have those of requests with the header
    `marked_by` on any path. `error` is the type of their bodies, `headers` returns the headers that only this dialect
    sends, `statuses` are those that only it uses, `tag` is its name in the OpenAPI document, and `stream_format` is the
    format of its streams.
    """

    tag: str
    error: type
    error_response: ToErrorResponse
    prefixes: Sequence[str]
    operations: Sequence[Operation]
    headers: SendHeaders = send_no_headers
    marked_by: str = ""
    statuses: Sequence[int] = ()
    stream_format: StreamFormat = StreamFormat.EVENTS

    def reading(self) -> Surface:
        """Return the surface with its read-only operations."""
        return replace(self, operations=[each for each in self.operations if each.method == "GET"])

    def routes(self, upstream: Upstream, settings: Settings) -> list[Route]:
        """Return the routes of the operations for a service."""
        return [self._route(each, upstream, settings) for each in self.operations]

    def _route(self, operation: Operation, upstream: Upstream, settings: Settings) -> Route:
        app = WithResponseHeaders(operation.handler.endpoint(upstream, self.error_response, settings), self.headers)
        if operation.unmarked_by:
            return UnmarkedRoute(operation.unmarked_by, operation.route, app, [operation.method])
        return (ClosedRoute if operation.is_closed else Route)(operation.route, app, methods=[operation.method])


@dataclass(frozen=True, slots=True)
class SurfaceMap:
    """All surfaces. The first one formats the errors of paths under no prefix."""

    surfaces: Sequence[Surface]

    def error_response(self, scope: Scope, failure: Failure) -> ErrorResponse:
        """Return the failure in the format of the request's surface."""
        surface = self._find(scope["path"], headers_of(scope))
        failure.request_id = scope["state"]["request_id"]
        response = surface.error_response(failure)
        return replace(response, headers=(*response.headers, *surface.headers(failure.request_id, {})))

    def _find(self, path: str, headers: Mapping[str, str]) -> Surface:
        """Return the surface whose header the request has, else the one with the longest prefix of its path."""
        found, length = self.surfaces[0], 0
        for surface in self.surfaces:
            if surface.marked_by and surface.marked_by in headers:
                return surface
            for prefix in surface.prefixes:
                if len(prefix) > length and (path == prefix or path.startswith(prefix + "/")):
                    found, length = surface, len(prefix)
        return found

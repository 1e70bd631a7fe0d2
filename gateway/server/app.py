"""The gateway's ASGI application: routes of the dialects, pages, and routes for operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from gateway.dialects.seam.failure import Failure, Reason
from gateway.http.suggested_path import suggested_path
from gateway.http.trailing_slash import TrailingSlash
from gateway.operators.drain import Drain, DrainGate
from gateway.operators.health import Readiness, health_routes
from gateway.operators.metrics_gate import MetricsGate
from gateway.operators.observer import RequestObserver
from gateway.operators.routes import operator_routes
from gateway.operators.status import StatusReader
from gateway.page.routes import page_routes
from gateway.routes.dialects.repository import REPOSITORY
from gateway.routes.dialects.serving_endpoints import SERVING_ENDPOINTS
from gateway.routes.dialects.surfaces import SURFACES
from gateway.routes.surface.surface import SurfaceMap
from gateway.routes.upstream.upstream import Upstream
from gateway.server.listeners import ListenerAudience
from gateway.settings.config import Settings
from gateway.telemetry.telemetry import Telemetry
from gateway.upstream.client import ServiceClient

_CHANGES: Final = (SERVING_ENDPOINTS, REPOSITORY)  # what only operators may reach, if they have their own listener


def build_app(
    settings: Settings,
    client: ServiceClient,
    telemetry: Telemetry,
    drain: Drain | None = None,
    audience: ListenerAudience = ListenerAudience.ALL,
) -> Starlette:
    """Return the application on top of an open client. `drain` controls its shutdown."""
    upstream = Upstream.from_client(client, settings)
    drain = drain or Drain()
    error_response = SurfaceMap(SURFACES).error_response
    gate = MetricsGate(client) if audience is ListenerAudience.ALL else None

    is_for_callers = audience is ListenerAudience.CALLERS
    surfaces = [each.reading() if is_for_callers and each in _CHANGES else each for each in SURFACES]

    readiness = Readiness(client, drain)
    status = StatusReader(client, telemetry, readiness.unready_reason)

    async def unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101  it is registered for nothing else
        reason = Reason.METHOD_NOT_ALLOWED if error.status_code == 405 else Reason.ROUTE_NOT_FOUND
        response = error_response(request.scope, Failure(reason, _unrouted_text(request, error, app.routes)))
        headers = {name.decode(): value.decode() for name, value in response.headers}
        if error.status_code == 405:
            headers["allow"] = ", ".join(sorted(_methods(app.routes, request.scope)))
        return Response(response.body, response.status, headers, "application/json")

    app = Starlette(
        routes=[
            *(route for surface in surfaces for route in surface.routes(upstream, settings)),
            *health_routes(drain, readiness),
            *page_routes(),
            *([] if is_for_callers else operator_routes(status, telemetry, error_response, gate)),
        ],
        middleware=[
            Middleware(
                RequestObserver,
                telemetry=telemetry,
                error_response=error_response,
                stall_timeout_s=settings.send_stall_timeout_s,
            ),
            Middleware(DrainGate, drain=drain, error_response=error_response),
            Middleware(TrailingSlash),
        ],
        exception_handlers={HTTPException: unrouted},
    )
    app.router.redirect_slashes = False  # some clients drop the body of a redirected POST
    return app


def _unrouted_text(request: Request, error: HTTPException, routes: Sequence[BaseRoute]) -> str:
    """Return the text of the error about a request that no route handles."""
    text = f"{request.method} {request.url.path}: {error.detail.lower()}"
    meant = suggested_path(request.method, request.url.path, routes) if error.status_code == 404 else None
    return text if meant is None else f"{text}; did you mean {meant}?"


def _methods(routes: Sequence[BaseRoute], scope: Scope) -> set[str]:
    """Return the methods of all routes with the path of the first route that matches."""
    matching = [each for each in routes if isinstance(each, Route) and each.matches(scope)[0] is not Match.NONE]
    return {method for each in matching if each.path == matching[0].path for method in each.methods or ()}

"""The gateway's ASGI application: routes of the dialects, pages, and routes for operators."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from gateway.dialects.seam.failure import Failure, Reason
from gateway.http.trailing_slash import TrailingSlash
from gateway.operators.drain import Drain, DrainGate, GatewayPhase
from gateway.operators.metrics_gate import MetricsGate
from gateway.operators.observer import RequestObserver
from gateway.operators.routes import operator_routes
from gateway.operators.status import StatusReader
from gateway.page.routes import page_routes
from gateway.routes.dialects.serving_endpoints import SERVING_ENDPOINTS
from gateway.routes.dialects.surfaces import SURFACES
from gateway.routes.surface.surface import SurfaceMap
from gateway.routes.upstream.upstream import Upstream
from gateway.server.listeners import ListenerAudience
from gateway.settings.config import Settings
from gateway.telemetry.telemetry import Telemetry
from gateway.upstream.client import ServiceClient
from process.distribution import installed_version


def build_app(
    settings: Settings,
    client: ServiceClient,
    telemetry: Telemetry,
    drain: Drain | None = None,
    audience: ListenerAudience = ListenerAudience.ALL,
) -> Starlette:
    """Return the application on top of an open client. `drain` controls its shutdown."""
    upstream = Upstream.from_client(client)
    drain = drain or Drain()
    error_response = SurfaceMap(SURFACES).error_response
    gate = MetricsGate(client) if audience is ListenerAudience.ALL else None

    is_for_callers = audience is ListenerAudience.CALLERS
    surfaces = [each.reading() if is_for_callers and each is SERVING_ENDPOINTS else each for each in SURFACES]

    async def healthz(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        if drain.phase is not GatewayPhase.SERVING:  # Envoy and other load balancers use other replicas
            return JSONResponse({"status": drain.phase.value}, status_code=503)
        return JSONResponse({"status": "alive"})

    async def livez(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        return JSONResponse({"status": "alive"})  # also while draining: a restart would cut off running requests

    async def unready_reason() -> str | None:
        leaving = None if drain.phase is GatewayPhase.SERVING else "the server is shutting down"
        return leaving or await client.unready_reason()

    status = StatusReader(client, telemetry, unready_reason)

    async def readyz(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        reason = await unready_reason()
        if reason is None:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "unready", "reason": reason}, status_code=503)

    async def own_version(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        return JSONResponse({"version": installed_version()})

    async def unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101  it is registered for nothing else
        reason = Reason.METHOD_NOT_ALLOWED if error.status_code == 405 else Reason.ROUTE_NOT_FOUND
        text = f"{request.method} {request.url.path}: {error.detail.lower()}"
        response = error_response(request.scope, Failure(reason, text))
        headers = {name.decode(): value.decode() for name, value in response.headers}
        if error.status_code == 405:
            headers["allow"] = ", ".join(sorted(_methods(app.routes, request.scope)))
        return Response(response.body, response.status, headers, "application/json")

    app = Starlette(
        routes=[
            *(route for surface in surfaces for route in surface.routes(upstream, settings)),
            Route("/livez", livez),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            *(Route(path, readyz) for path in ("/health", "/ping")),  # paths of other servers
            Route("/version", own_version),
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


def _methods(routes: Sequence[BaseRoute], scope: Scope) -> set[str]:
    """Return the methods of all routes with the path of the first route that matches."""
    matching = [each for each in routes if isinstance(each, Route) and each.matches(scope)[0] is not Match.NONE]
    return {method for each in matching if each.path == matching[0].path for method in each.methods or ()}

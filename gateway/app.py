"""The gateway's ASGI application: the dialects' routes, the API's description, and the operators' routes."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from importlib.metadata import version

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from gateway.config import Settings
from gateway.dialects.seam.failure import Failure, Reason
from gateway.http.trailing_slash import TrailingSlash
from gateway.operators.drain import Drain, DrainGate, GatewayPhase
from gateway.operators.metrics_gate import MetricsGate
from gateway.operators.observer import RequestObserver
from gateway.operators.routes import operator_routes
from gateway.operators.status import StatusReader
from gateway.page.routes import page_routes
from gateway.routes.dialects.serving_endpoints import SERVING_ENDPOINTS
from gateway.routes.surface import SurfaceMap
from gateway.routes.surfaces import SURFACES
from gateway.routes.upstream.upstream import Upstream
from gateway.telemetry import Telemetry
from gateway.upstream.client import ServiceClient


class ListenerAudience(enum.Enum):
    """Whom a listener is for."""

    ALL = "all"  # callers, and operators, who need the scope `metrics`
    CALLERS = "callers"
    OPERATORS = "operators"  # who reaches this one may see metrics; it has everything


def build_app(
    settings: Settings,
    client: ServiceClient,
    telemetry: Telemetry,
    drain: Drain | None = None,
    side: ListenerAudience = ListenerAudience.ALL,
) -> Starlette:
    """The application over an open client. `drain` is how it leaves, if it is to."""
    upstream = Upstream.of(client)
    drain = drain or Drain()
    refuse = SurfaceMap(SURFACES).refuse
    gate = MetricsGate(client) if side is ListenerAudience.ALL else None

    surfaces = [
        each.reading() if side is ListenerAudience.CALLERS and each is SERVING_ENDPOINTS else each for each in SURFACES
    ]

    async def healthz(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        if drain.phase is not GatewayPhase.SERVING:  # Envoy and other balancers shall look elsewhere
            return JSONResponse({"status": drain.phase.value}, status_code=503)
        return JSONResponse({"status": "alive"})

    async def livez(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        return JSONResponse({"status": "alive"})  # while it leaves, too: who ends it then cuts off what still runs

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
        return JSONResponse({"version": version("sluice")})

    async def unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101  it is registered for nothing else
        reason = Reason.METHOD_NOT_ALLOWED if error.status_code == 405 else Reason.ROUTE_NOT_FOUND
        text = f"{request.method} {request.url.path}: {error.detail.lower()}"
        refusal = refuse(request.scope, Failure(error.status_code, reason, text))
        headers = {name.decode(): value.decode() for name, value in refusal.headers}
        if error.status_code == 405:
            headers["allow"] = ", ".join(sorted(_methods(app.routes, request.scope)))
        return Response(refusal.body, refusal.status, headers, "application/json")

    app = Starlette(
        routes=[
            *(route for surface in surfaces for route in surface.routes(upstream, settings)),
            Route("/livez", livez),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            *(Route(path, readyz) for path in ("/health", "/ping")),  # where clients of other servers ask
            Route("/version", own_version),
            *page_routes(),
            *([] if side is ListenerAudience.CALLERS else operator_routes(status, telemetry, refuse, gate)),
        ],
        middleware=[
            Middleware(
                RequestObserver,
                telemetry=telemetry,
                refuse=refuse,
                stall_timeout_s=settings.send_stall_timeout_s,
            ),
            Middleware(DrainGate, drain=drain, refuse=refuse),
            Middleware(TrailingSlash),
        ],
        exception_handlers={HTTPException: unrouted},
    )
    app.router.redirect_slashes = False  # a redirected POST loses its body in some clients
    return app


def _methods(routes: Sequence[BaseRoute], scope: Scope) -> set[str]:
    """What may be asked of the scope's path: the methods of the first route that has it, and of its twins."""
    matching = [each for each in routes if isinstance(each, Route) and each.matches(scope)[0] is not Match.NONE]
    return {method for each in matching if each.path == matching[0].path for method in each.methods or ()}

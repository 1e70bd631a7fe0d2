"""Routes for load balancers and orchestrators: liveness, health and readiness of the gateway."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.operators.drain import Drain, GatewayPhase
from gateway.upstream.client import ServiceClient
from process.distribution import installed_version


class Readiness:
    """The readiness of the gateway to serve requests."""

    def __init__(self, client: ServiceClient, drain: Drain) -> None:
        self._client = client
        self._drain = drain

    async def unready_reason(self) -> str | None:
        """Return why requests can't be served, or None if they can be served."""
        if self._drain.phase is not GatewayPhase.SERVING:
            return "the server is shutting down"
        return await self._client.unready_reason()


def health_routes(drain: Drain, readiness: Readiness) -> list[Route]:
    """Return the routes `/livez`, `/healthz`, `/readyz`, its paths on other servers, and `/version`."""

    async def livez(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        return JSONResponse({"status": "alive"})  # also during a drain

    async def healthz(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        if drain.phase is not GatewayPhase.SERVING:  # fails while draining, so that load balancers use other replicas
            return JSONResponse({"status": drain.phase.value}, status_code=503)
        return JSONResponse({"status": "alive"})

    async def readyz(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        reason = await readiness.unready_reason()
        if reason is None:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "unready", "reason": reason}, status_code=503)

    async def version(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        return JSONResponse({"version": installed_version()})

    return [
        Route("/livez", livez),
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        *(Route(path, readyz) for path in ("/health", "/ping")),  # paths of other servers
        Route("/version", version),
    ]

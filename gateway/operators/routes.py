"""Routes for operators: metrics, the status page and its data, the API reference, the documentation."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure
from gateway.http.reply import challenges
from gateway.openapi.routes import docs_routes
from gateway.operators.metrics_gate import MetricsGate
from gateway.operators.status import StatusReader
from gateway.page.routes import documentation_routes, status_page_routes
from gateway.telemetry.telemetry import Telemetry
from gateway.upstream.caller import Caller


def operator_routes(
    reader: StatusReader,
    telemetry: Telemetry,
    error_response: Callable[[Scope, Failure], ErrorResponse],
    gate: MetricsGate | None,
) -> list[BaseRoute]:
    """Return the routes. `gate` restricts metrics; None on a listener for operators only."""

    def rejected(request: Request, failure: Failure) -> Response:
        headers = {name.decode(): value.decode() for name, value in challenges(failure)}
        response = error_response(request.scope, failure)
        return Response(response.body, response.status, headers, "application/json")

    async def metrics(request: Request) -> Response:
        if gate is not None and (failure := await gate.rejection(request.state.request_id, request.headers)):
            return rejected(request, failure)
        return Response(telemetry.page(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def status(request: Request) -> Response:
        client = request.state.request_id, request.headers
        body, failure = await reader.read(Caller.from_headers(*client))
        if gate is not None and (rejection := await gate.rejection_after(failure, *client)):
            return rejected(request, rejection)
        return Response(body, headers={"cache-control": "no-store"}, media_type="application/json")

    return [
        *docs_routes(),
        *documentation_routes(),
        *status_page_routes(),
        Route("/status.json", status),
        Route("/metrics", metrics),
    ]

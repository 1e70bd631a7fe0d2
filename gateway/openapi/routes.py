"""The routes of the API reference: `/openapi.json`, its page `/docs`, and gRPC's `/sluice.binpb`."""

from __future__ import annotations

from functools import cache
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.openapi.descriptors import MEDIA_TYPE, descriptor_set
from gateway.openapi.document import build_document
from gateway.openapi.viewer import CONTENT_SECURITY_POLICY, PAGE, read_assets
from gateway.routes.dialects.surfaces import SURFACES

_CACHED: Final = {"cache-control": "public, max-age=86400"}


@cache
def docs_routes() -> tuple[Route, ...]:
    """Return the routes, which are the same for every application in a process. The first call takes 0.2 s."""
    document = orjson.dumps(build_document(SURFACES))
    descriptors = descriptor_set().SerializeToString()
    assets = read_assets()

    async def openapi(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        return Response(document, media_type="application/json")

    async def contract(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        return Response(descriptors, headers={"content-type": MEDIA_TYPE})

    async def page(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        headers = {"content-security-policy": CONTENT_SECURITY_POLICY}
        return Response(PAGE, headers=headers, media_type="text/html")

    def asset(name: str) -> Route:
        content, media_type = assets[name]

        async def serve(request: Request) -> Response:  # noqa: ARG001  the framework's signature
            return Response(content, headers=_CACHED, media_type=media_type)

        return Route(f"/page/{name}", serve)

    return (
        Route("/openapi.json", openapi),
        Route("/sluice.binpb", contract),
        Route("/docs", page),
        *map(asset, assets),
    )

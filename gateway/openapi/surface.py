"""The routes of the API's own description: `/openapi.json`, and `/docs` to read it in."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.client import ServiceClient
from gateway.config import Settings
from gateway.dialects.openai.chat import OpenAITranslator
from gateway.openapi.document import build_document
from gateway.openapi.operations import OPERATIONS
from gateway.openapi.viewer import CONTENT_SECURITY_POLICY, PAGE, read_assets
from gateway.routes.surface import Surface

_CACHED = {"cache-control": "public, max-age=86400"}


def docs_surface(client: ServiceClient, settings: Settings) -> Surface:  # noqa: ARG001  a surface's signature
    """The document and its viewer."""
    document = orjson.dumps(build_document(OPERATIONS))
    assets = read_assets()

    async def openapi(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        return Response(document, media_type="application/json")

    async def page(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        headers = {"content-security-policy": CONTENT_SECURITY_POLICY}
        return Response(PAGE, headers=headers, media_type="text/html")

    def asset(name: str) -> Route:
        content, media_type = assets[name]

        async def serve(request: Request) -> Response:  # noqa: ARG001  the framework's signature
            return Response(content, headers=_CACHED, media_type=media_type)

        return Route(f"/docs/{name}", serve)

    routes = [Route("/openapi.json", openapi), Route("/docs", page), *map(asset, assets)]
    return Surface(routes, ("/docs", "/openapi.json"), OpenAITranslator().refuse)

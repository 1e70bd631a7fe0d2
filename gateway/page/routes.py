"""The routes of the web pages: `/` for chat, `/status` for operators, their files under `/page/`, and `/docs/`."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

SITE: Final = Path(__file__).with_name("site")  # pages of the documentation, written by `make docs`, and in a wheel

_CHAT: Final = Path(__file__).with_name("static")
_STATUS: Final = Path(__file__).with_name("status")
_PAGES: Final = {"index.html": "/", "status.html": "/status"}
_MEDIA_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    "": "text/plain",  # licences
}
# No other hosts, no inline scripts, no framing.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src {styles}; connect-src 'self'; img-src {images}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY.format(styles="'self'", images="data:"),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # revalidated on each use
}
# The documentation has image files, and its search runs in a worker and has one inline style. After an update of the
# generator, the new hash is in the error on the browser's console.
_SEARCH_STYLE: Final = "'sha256-NwSx/R2V/U4jnW0Tq5pQ53Y/rzPVJ4dqE7D6UTA/J1k='"
_SITE_POLICY: Final = _POLICY.format(styles=f"'self' {_SEARCH_STYLE}", images="'self' data:") + "; worker-src 'self'"
_SITE_HEADERS: Final = _HEADERS | {"content-security-policy": _SITE_POLICY}
_NO_PAGE: Final = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>No such page</title>
<p>The documentation has no such page. <a href="/docs/">Go to its start.</a></p>
</html>
"""


def page_routes() -> list[Route]:
    """Return a route for each file of the chat page."""
    return [_route(path) for path in sorted(_CHAT.iterdir())]


def status_page_routes() -> list[Route]:
    """Return a route for each file of the status page, which also uses the chat page's styles."""
    return [_route(path) for path in sorted(_STATUS.iterdir())]


def documentation_routes(site: Path = SITE) -> list[Route]:
    """Return the routes of `/docs/`, which redirects to the API reference at `/docs` if there are no pages."""
    files = {path.relative_to(site).as_posix(): path for path in sorted(site.rglob("*")) if path.is_file()}
    pages = {name: _endpoint(path, _SITE_HEADERS) for name, path in files.items() if path.suffix in _MEDIA_TYPES}

    async def serve(request: Request) -> Response:
        page = pages.get(request.path_params["name"] or "index.html")
        if page is None:
            return Response(_NO_PAGE, 404, _SITE_HEADERS, "text/html")
        return await page(request)

    async def describe(request: Request) -> Response:  # noqa: ARG001  the framework's signature
        return RedirectResponse("../docs")

    return [Route("/docs/{name:path}", serve)] if pages else [Route("/docs/", describe)]


def _route(path: Path) -> Route:
    return Route(_PAGES.get(path.name, f"/page/{path.name}"), _endpoint(path, _HEADERS))


def _endpoint(path: Path, common: dict[str, str]) -> Endpoint:
    """Return an endpoint that sends a file, read once, or 304 if the browser has it."""
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**common, "etag": tag}
    media_type = _MEDIA_TYPES[path.suffix]

    async def serve(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media_type)

    return serve

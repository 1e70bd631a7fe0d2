"""The pages' files as routes: `/` to chat on, `/status` for operators, what they load under `/page/`, and `/docs/`."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

SITE: Final = Path(__file__).with_name("site")  # the documentation's pages, where `make docs` or a wheel has put them

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
# Nothing from elsewhere, nothing written into the page, no frame around it.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src {styles}; connect-src 'self'; img-src {images}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY.format(styles="'self'", images="data:"),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # asked for again each time, and sent only if it has changed
}
# Its pictures are files, and its search is a worker, whose window has one style of the generator's: its hash is the one
# that a browser's console names when it refuses another version's.
_SEARCH_STYLE: Final = "'sha256-NwSx/R2V/U4jnW0Tq5pQ53Y/rzPVJ4dqE7D6UTA/J1k='"
_SITE_POLICY: Final = _POLICY.format(styles=f"'self' {_SEARCH_STYLE}", images="'self' data:") + "; worker-src 'self'"
_SITE_HEADERS: Final = _HEADERS | {"content-security-policy": _SITE_POLICY}
_NO_PAGE: Final = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>No such page</title>
<p>The documentation has no such page. <a href="/docs/">It begins here.</a></p>
</html>
"""


def page_routes() -> list[Route]:
    """A route for each file of the page to chat on."""
    return [_route(path) for path in sorted(_CHAT.iterdir())]


def status_page_routes() -> list[Route]:
    """A route for each file of the operators' page, which has the other's style, too."""
    return [_route(path) for path in sorted(_STATUS.iterdir())]


def documentation_routes(site: Path = SITE) -> list[Route]:
    """The documentation under `/docs/`; without its pages, that path leads to the API's description at `/docs`."""
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


def _endpoint(path: Path, policy: dict[str, str]) -> Endpoint:
    """What answers with a file, read once, or with 304 to who has it."""
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**policy, "etag": tag}
    media_type = _MEDIA_TYPES[path.suffix]

    async def serve(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media_type)

    return serve

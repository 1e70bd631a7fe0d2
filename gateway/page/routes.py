"""The pages' files as routes: `/` to chat on, `/status` for operators, and what they load under `/page/`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_CHAT: Final = Path(__file__).with_name("static")
_STATUS: Final = Path(__file__).with_name("status")
_PAGES: Final = {"index.html": "/", "status.html": "/status"}
_MEDIA_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
# Nothing from elsewhere, nothing written into the page, no frame around it.
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # asked for again each time, and sent only if it has changed
}


def page_routes() -> list[Route]:
    """A route for each file of the page to chat on."""
    return [_route(path) for path in sorted(_CHAT.iterdir())]


def status_page_routes() -> list[Route]:
    """A route for each file of the operators' page, which has the other's style, too."""
    return [_route(path) for path in sorted(_STATUS.iterdir())]


def _route(path: Path) -> Route:
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**_HEADERS, "etag": tag}
    media_type = _MEDIA_TYPES[path.suffix]

    async def serve(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media_type)

    return Route(_PAGES.get(path.name, f"/page/{path.name}"), serve)

"""Accept paths with a trailing slash, which some clients send."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class TrailingSlash:
    """Takes the slash away before a route is looked for: a redirected POST loses its body in some clients."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The links of /docs are relative. In place: what is outside finds the route in it.
        if scope["type"] == "http" and scope["path"].endswith("/") and scope["path"] != "/docs/":
            scope["path"] = scope["path"][:-1] or "/"
        await self._app(scope, receive, send)

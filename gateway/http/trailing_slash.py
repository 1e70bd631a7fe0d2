"""Accept paths with a trailing slash, which some clients send."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class TrailingSlash:
    """Removes the slash before routing instead of redirecting: some clients drop the body of a redirected POST."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Links in /docs are relative. The scope is changed in place so that outer middlewares find the route in it.
        if scope["type"] == "http" and scope["path"].endswith("/") and scope["path"] != "/docs/":
            scope["path"] = scope["path"][:-1] or "/"
        await self._app(scope, receive, send)

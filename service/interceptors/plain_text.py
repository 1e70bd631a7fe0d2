"""Log a warning if credentials arrive unencrypted over a network."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from process.network.plain_text import PlainTextCredentials
from service.interceptors.policy import Behaviour, Context, Policy


class PlainText(Policy):
    """Checks the metadata and the connection of each call."""

    def __init__(self) -> None:
        self._credentials = PlainTextCredentials()

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:  # noqa: ARG002  a policy's signature
        metadata = {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
        is_encrypted = b"ssl" in context.auth_context().get("transport_security_type", ())
        self._credentials.check(_host(context.peer()), metadata, is_encrypted=is_encrypted)
        return await proceed(request, context)


def _host(peer: str) -> str:
    """Return the address of a peer such as `ipv4:127.0.0.1:50051` or `ipv6:%5B::1%5D:50051`."""
    return unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")

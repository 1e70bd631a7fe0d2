"""Refuse to start on a public address if the service asks for no keys.

Such a gateway marks its calls, and a service without keys refuses them, so that nobody gets in meanwhile or later; this
finds it out at the start.
"""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.config import Settings
from gateway.dialects.seam.failure import Failure, Reason
from gateway.upstream.client import Caller, ServiceClient

_RETRY_S: Final = 0.5


class Exposed(Exception):  # noqa: N818  a name says what happened
    """Everybody would be let in; the text is the one line that says so."""


async def until_exposed(client: ServiceClient, settings: Settings) -> Exposed:
    """Return once the service says that it asks for no keys; wait for ever if it does ask, or need not."""
    while settings.needs_keys:
        try:
            await client.list_models(Caller("gateway-start"))
        except Failure as failure:
            if failure.reason is Reason.AUTH_OFF:
                return Exposed(
                    f"host: {settings.host} can be reached from other machines, and the service asks for no keys; "
                    "give the service auth.keys_file or auth.jwks, listen on 127.0.0.1, or write "
                    "auth.allow_anonymous: true"
                )
            if failure.status == 401:
                break
        await asyncio.sleep(_RETRY_S)
    never: asyncio.Future[Exposed] = asyncio.get_running_loop().create_future()
    return await never

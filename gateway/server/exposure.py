"""Stop a gateway that listens on a public address while the service's authentication is off.

Such a gateway marks its calls, and a service without authentication rejects them at any time; this check reports it at
the start.
"""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.dialects.seam.failure import Failure, Reason
from gateway.settings.config import Settings
from gateway.upstream.caller import Caller
from gateway.upstream.client import ServiceClient

_RETRY_S: Final = 0.5


class ExposedError(Exception):
    """Requests without credentials would be accepted from other machines; the text is one line."""


async def until_exposed(client: ServiceClient, settings: Settings) -> ExposedError:
    """Return the error once the service reports that authentication is off; wait forever if it is on, or not needed."""
    while settings.needs_keys:
        try:
            await client.list_models(Caller("gateway-start"))
        except Failure as failure:
            if failure.reason is Reason.AUTH_OFF:
                return ExposedError(
                    f"host: {settings.host} can be reached from other machines, and the service has no "
                    "authentication; set auth.keys_file or auth.jwks of the service, listen on 127.0.0.1, or set "
                    "auth.allow_anonymous: true"
                )
            if failure.status == 401:
                break
        await asyncio.sleep(_RETRY_S)
    never: asyncio.Future[ExposedError] = asyncio.get_running_loop().create_future()
    return await never

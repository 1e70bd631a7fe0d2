"""Who may see metrics where callers are, too: whom the service gives the scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gateway.client import Caller, ServiceClient
from gateway.dialects.seam.failure import Failure

_SCOPE = "metrics"


class MetricsGate:
    """Asks the service. While that is away, what it said last holds, so that metrics tell of the failure."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client
        self._asks_for_keys = False

    async def refusal(self, request_id: str, headers: Mapping[str, str]) -> Failure | None:
        """Why the sender of these headers may not see them; None if he may."""
        caller = Caller.of(request_id, headers)
        try:
            await self._client.list_models(replace(caller, scope=_SCOPE))
        except Failure as failure:
            if failure.status in {401, 403}:
                self._asks_for_keys = True
                return failure
            return failure if self._asks_for_keys else None
        if caller.authorization is None:
            self._asks_for_keys = False
        return None

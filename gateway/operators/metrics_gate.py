"""Restrict metrics on the shared listener to API keys with the scope `metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus

from gateway.dialects.seam.failure import Failure
from gateway.upstream.caller import Caller
from gateway.upstream.client import ServiceClient

_SCOPE = "metrics"


class MetricsGate:
    """Checks API keys with the service.

    While it is unavailable, its last decision applies, so that metrics show the outage.
    """

    def __init__(self, client: ServiceClient) -> None:
        self._client = client
        self._needs_keys = False

    async def rejection(self, request_id: str, headers: Mapping[str, str]) -> Failure | None:
        """Return why the client with these headers may not read metrics, or None if it may."""
        caller = Caller.from_headers(request_id, headers)
        try:
            await self._client.list_models(replace(caller, scope=_SCOPE))
        except Failure as failure:
            return self._decide(caller, failure)
        return self._decide(caller, None)

    async def rejection_after(
        self, failure: Failure | None, request_id: str, headers: Mapping[str, str]
    ) -> Failure | None:
        """Return the rejection of a client whose call of an RPC with this scope ended with `failure`, or None."""
        if failure is not None and failure.status == HTTPStatus.NOT_IMPLEMENTED:  # an older service
            return await self.rejection(request_id, headers)
        return self._decide(Caller.from_headers(request_id, headers), failure)

    def _decide(self, caller: Caller, failure: Failure | None) -> Failure | None:
        """Return the failure of a request for metrics, or None if they may be read."""
        if failure is None:
            if caller.authorization is None:
                self._needs_keys = False
            return None
        if failure.status in {401, 403}:
            self._needs_keys = True
            return failure
        return failure if self._needs_keys else None

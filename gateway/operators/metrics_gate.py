"""Restrict metrics on the public listener to callers with the scope `metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus

from gateway.dialects.seam.failure import Failure
from gateway.upstream.client import Caller, ServiceClient

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
            return self._judged(caller, failure)
        return self._judged(caller, None)

    async def refusal_after(
        self, failure: Failure | None, request_id: str, headers: Mapping[str, str]
    ) -> Failure | None:
        """The same of a sender who has called an RPC that takes the scope, by how that call failed, if it did."""
        if failure is not None and failure.status == HTTPStatus.NOT_IMPLEMENTED:  # by an older service, unlooked at
            return await self.refusal(request_id, headers)
        return self._judged(Caller.of(request_id, headers), failure)

    def _judged(self, caller: Caller, failure: Failure | None) -> Failure | None:
        if failure is None:
            if caller.authorization is None:
                self._asks_for_keys = False
            return None
        if failure.status in {401, 403}:
            self._asks_for_keys = True
            return failure
        return failure if self._asks_for_keys else None

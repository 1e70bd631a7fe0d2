"""Report faults of a body only to authenticated callers; others get the authentication error first.

The service decides about credentials when it is called, and a body that can't be read calls nothing. So it is asked
then; requests without a fault cost nothing more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from gateway.dialects.seam.failure import Failure
from gateway.upstream.client import Caller, ServiceClient

Told: TypeAlias = Callable[[Failure, Caller], Awaitable[Failure]]
"""What a caller is told in place of a failure that the gateway has found itself."""


async def as_found(failure: Failure, caller: Caller) -> Failure:  # noqa: ARG001  a Told
    """The failure itself, whoever the caller is."""
    return failure


def credential_first(client: ServiceClient) -> Told:
    """What the service says of the caller's credential if it is not let in. While the service is away, the failure."""

    async def told(failure: Failure, caller: Caller) -> Failure:
        if failure.status >= 500:
            return failure
        try:
            await client.list_models(caller)
        except Failure as refusal:
            if refusal.status == 401:
                refusal.request_id = failure.request_id
                return refusal
        return failure

    return told

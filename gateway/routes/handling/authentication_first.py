"""Report errors in a body only to authenticated callers; others get the authentication error first.

The service checks credentials when it is called, and an invalid body causes no call. In this case one additional call
checks the credential; valid requests cost nothing more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeAlias

from gateway.dialects.seam.failure import Failure
from gateway.upstream.caller import Caller
from gateway.upstream.client import ServiceClient

ReplaceFailure: TypeAlias = Callable[[Failure, Caller], Awaitable[Failure]]
"""Return the failure to report instead of one that the gateway found itself."""


async def keep_failure(failure: Failure, caller: Caller) -> Failure:  # noqa: ARG001  a ReplaceFailure
    """Return the failure unchanged for every caller."""
    return failure


def authentication_first(client: ServiceClient) -> ReplaceFailure:
    """Return a function that replaces a failure by the authentication error of a caller that the service rejects.

    If the service is unavailable, the failure is kept.
    """

    async def replace_failure(failure: Failure, caller: Caller) -> Failure:
        if failure.status >= 500 or failure.status == HTTPStatus.UNAUTHORIZED:
            return failure
        try:
            await client.require_key(caller)
        except Failure as rejection:
            rejection.request_id = failure.request_id
            return rejection
        return failure

    return replace_failure

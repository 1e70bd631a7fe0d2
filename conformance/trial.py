"""The test of all claims of a dialect on a server."""

from __future__ import annotations

from collections.abc import Callable, Collection

import httpx

from conformance.claim import BrokenError, Claim, Finding, InapplicableError, Result, cut
from conformance.error_claims import error_claims
from conformance.server import Dialect, Server


def claims_of(dialect: Dialect) -> list[Claim[Server]]:
    """Return all claims of a dialect, in the order in which they are tested."""
    claims = (*dialect.claims, *error_claims(dialect))
    return [claim for claim in claims if not claim.dialects or dialect.name in claim.dialects]


def findings(
    server: Server, note: Callable[[Finding], None] = lambda _: None, only: Collection[str] | None = None
) -> list[Finding]:
    """Test all claims, or those with these ids, one by one. Each finding is also passed to the callback immediately."""
    found = []
    for claim in claims_of(server.dialect):
        if only is None or claim.id in only:
            result, seen = tried(lambda: claim.attempt(server))  # noqa: B023  called immediately
            is_said = claim.where and claim.id not in server.dialect.unsaid
            reference = f"{server.dialect.reference}, {claim.where}" if is_said else ""
            found.append(Finding(claim.id, claim.text, reference, result, cut(seen)))
            note(found[-1])
    return found


def tried(attempt: Callable[[], str]) -> tuple[Result, str]:
    """Return the result of testing a claim, and the observation."""
    try:
        return "passed", attempt()
    except InapplicableError as error:
        return "not applicable", str(error)
    except BrokenError as error:
        return "failed", str(error)
    except (httpx.HTTPError, OSError) as error:
        return "failed", f"the call failed: {type(error).__name__}: {error}"
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:  # a number where an object belongs
        return "failed", f"an answer of an unexpected form: {type(error).__name__}: {error}"

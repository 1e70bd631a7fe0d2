"""All claims of a dialect, tried on a server."""

from __future__ import annotations

from collections.abc import Callable, Collection

import httpx

from conformance.claim import BrokenError, Claim, Finding, InapplicableError, Result, cut
from conformance.refusals import refusals
from conformance.server import Dialect, Server


def claims_of(dialect: Dialect) -> list[Claim[Server]]:
    """All claims that a dialect makes, in the order in which they are tried."""
    claims = (*dialect.claims, *refusals(dialect))
    return [claim for claim in claims if not claim.dialects or dialect.name in claim.dialects]


def findings(
    server: Server, note: Callable[[Finding], None] = lambda _: None, only: Collection[str] | None = None
) -> list[Finding]:
    """What came of each claim, or of those with these ids, one after the other; each finding is noted as it comes."""
    found = []
    for claim in claims_of(server.dialect):
        if only is None or claim.id in only:
            result, seen = _tried(claim, server)
            is_said = claim.where and claim.id not in server.dialect.unsaid
            reference = f"{server.dialect.reference}, {claim.where}" if is_said else ""
            found.append(Finding(claim.id, claim.text, reference, result, cut(seen)))
            note(found[-1])
    return found


def _tried(claim: Claim[Server], server: Server) -> tuple[Result, str]:
    try:
        return "passed", claim.attempt(server)
    except InapplicableError as error:
        return "not applicable", str(error)
    except BrokenError as error:
        return "failed", str(error)
    except httpx.HTTPError as error:
        return "failed", f"the call broke: {type(error).__name__}: {error}"
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:  # a number where an object belongs
        return "failed", f"an answer of another form: {type(error).__name__}: {error}"

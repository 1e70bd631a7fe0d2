"""All attacks on a server, one by one: each must hold by itself, harm no other client and take no memory."""

from __future__ import annotations

from collections.abc import Callable, Collection

from conformance.attacks.memory import Growth
from conformance.attacks.sections import SECTIONS
from conformance.attacks.target import Target
from conformance.claim import BrokenError, Claim, Finding, InapplicableError, cut
from conformance.trial import tried

ATTACKS: list[Claim[Target]] = [attack for section in SECTIONS for attack in section]


def raid_findings(
    target: Target,
    pid: int | None,
    max_growth_mib: int,
    note: Callable[[Finding], None] = lambda _: None,
    only: Collection[str] | None = None,
) -> list[Finding]:
    """Make all attacks, or those with these ids. Each finding is also passed to the callback immediately.

    `pid` is the server's first process, whose memory may grow by `max_growth_mib` during an attack. After an attack
    that ended the service of all clients, the others are not applicable.
    """
    found: list[Finding] = []
    ended_by = ""
    for attack in ATTACKS:
        if only is None or attack.id in only:
            result, seen = tried(lambda: _made(attack, target, pid, max_growth_mib, ended_by))  # noqa: B023  called now
            if not ended_by and result == "failed" and not _recovers(target):
                ended_by = attack.id
            found.append(Finding(attack.id, attack.text, attack.where, result, cut(seen)))
            note(found[-1])
    return found


def _made(attack: Claim[Target], target: Target, pid: int | None, max_growth_mib: int, ended_by: str) -> str:
    if ended_by:
        raise InapplicableError(f"the server serves nobody since {ended_by}")
    with Growth(pid) as growth:
        seen = attack.attempt(target)
        target.serve_others("afterwards")
    if growth.mib > max_growth_mib:
        raise BrokenError(f"{seen}; the server's memory grew by {growth.mib} MiB")
    return seen


def _recovers(target: Target) -> bool:
    try:
        target.serve_others("after a failure")
    except (BrokenError, OSError):
        return False
    return True

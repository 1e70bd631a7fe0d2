"""Grammar rules for members that are written in a fixed order, with separators between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Member(NamedTuple):
    """One member: the body of its rule. A member that is not required may be omitted."""

    body: str
    is_required: bool


def member_list(rule: str, members: Sequence[Member], separator: str) -> Iterator[str]:
    """Yield the rules of a list, the first of which is named `rule`; `separator` is the body of a rule.

    The list is empty if no member is required.
    """
    last = len(members)
    yield f"{rule}: {rule}_first_0"
    for index, member in enumerate(members):
        yield f"{rule}_{index}: {member.body}"
        for part, before in (("first", ""), ("rest", f"{separator} ")):
            skipped = "" if member.is_required else f" | {rule}_{part}_{index + 1}"
            yield f"{rule}_{part}_{index}: {before}{rule}_{index} {rule}_rest_{index + 1}{skipped}"
    yield f'{rule}_first_{last}: ""'
    yield f'{rule}_rest_{last}: ""'

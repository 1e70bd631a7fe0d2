"""Map field paths of the contract back to the names that the client wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SUBSCRIPT = re.compile(r'\[(?:"([^"]*)"|(\w+))\]')


def dotted(field: str) -> str:
    """Return a path of the contract with dots only: `messages[0].content` → `messages.0.content`."""
    return _SUBSCRIPT.sub(r".\1\2", field)


def renamed(path: str, names: Mapping[str, str]) -> str:
    """Return the dotted `path` with its longest prefix in `names` replaced; an empty name removes the prefix."""
    head, tail = path, ""
    while head not in names:
        head, dot, last = head.rpartition(".")
        if not dot:
            return path
        tail = f"{last}.{tail}" if tail else last
    return ".".join(part for part in (names[head], tail) if part)

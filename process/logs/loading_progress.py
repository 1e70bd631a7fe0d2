"""The log field with which a process reports to its parent that its start makes progress.

The bytes moved so far are the field `loaded_bytes` of a JSON log line. Other log lines are not progress.
"""

from __future__ import annotations

import json
from typing import Final

LOADED_BYTES: Final = "loaded_bytes"


def progress_fields(num_bytes: int) -> dict[str, dict[str, int]]:
    """The argument `extra` of a log call that reports `num_bytes` moved so far."""
    return {"fields": {LOADED_BYTES: num_bytes}}


def reports_progress(line: str) -> bool:
    """Return True if a line of a process's log reports progress."""
    if LOADED_BYTES not in line:
        return False
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return isinstance(entry, dict) and isinstance(entry.get(LOADED_BYTES), int)

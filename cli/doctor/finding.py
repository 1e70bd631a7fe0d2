"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """The status of a check; `FAILED` prevents a start, `WARNING` does not."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    name: str  # what was checked, such as `memory` or a setting's name
    status: Status
    text: str  # the measured value; for a warning or a failure the reason and the remedy

    def as_plain(self) -> dict[str, str]:
        """Return the finding as plain values for JSON."""
        return {"name": self.name, "status": self.status.value, "text": self.text}

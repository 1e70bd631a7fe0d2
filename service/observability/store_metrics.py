"""The metric of stored responses: how many were stored, rejected by a limit, or lost to a failure of the store."""

from __future__ import annotations

from typing import Final

from service.observability.telemetry import Telemetry

_OUTCOME: Final = "sluice.outcome"


class StoreMetrics:
    """Counts the responses that clients wanted to store."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._responses = telemetry.meter.create_counter(
            "sluice.store.responses", "{response}", "Responses to store, by outcome: stored, refused or failed."
        )

    def on_stored(self) -> None:
        """Count a response that is stored."""
        self._responses.add(1, {_OUTCOME: "stored"})

    def on_rejected(self) -> None:
        """Count a response that a limit rejects."""
        self._responses.add(1, {_OUTCOME: "refused"})

    def on_failed(self) -> None:
        """Count a response that could not be stored because the store failed."""
        self._responses.add(1, {_OUTCOME: "failed"})

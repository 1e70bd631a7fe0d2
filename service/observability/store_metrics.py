"""The metrics of the store: responses that were stored or not, and requests of batches that succeeded or failed."""

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


class BatchMetrics:
    """Counts the requests of batches that were answered."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._lines = telemetry.meter.create_counter(
            "sluice.batch.requests", "{request}", "Requests of batches, by outcome: succeeded or failed."
        )
        for is_success in (True, False):  # so that both are shown from the start
            self._add(0, is_success=is_success)

    def on_line(self, *, is_success: bool) -> None:
        """Count a request with its result."""
        self._add(1, is_success=is_success)

    def _add(self, number: int, *, is_success: bool) -> None:
        self._lines.add(number, {_OUTCOME: "succeeded" if is_success else "failed"})

"""The metrics of models that are loaded on demand."""

from __future__ import annotations

from typing import Final

from service.observability.telemetry import Telemetry

_MODEL: Final = "gen_ai.request.model"
_OUTCOME: Final = "sluice.outcome"
_WAIT_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)


class ModelMetrics:
    """Counts loads and unloads on demand, and records how long requests waited for a load."""

    def __init__(self, telemetry: Telemetry) -> None:
        meter = telemetry.meter
        self._loads = meter.create_counter(
            "sluice.model.loads", "{load}", "Loads of models on demand, by outcome: succeeded or failed."
        )
        self._unloads = meter.create_counter("sluice.model.unloads", "{unload}", "Unloads of models on demand.")
        self._waits = meter.create_histogram(
            "sluice.model.load_wait",
            "s",
            "Time that a request waited until its model was loaded.",
            explicit_bucket_boundaries_advisory=_WAIT_BUCKETS,
        )

    def on_load(self, model: str, *, is_success: bool) -> None:
        """Count a load that has ended."""
        self._loads.add(1, {_MODEL: model, _OUTCOME: "succeeded" if is_success else "failed"})

    def on_unload(self, model: str) -> None:
        """Count an unload."""
        self._unloads.add(1, {_MODEL: model})

    def on_wait(self, model: str, wait_s: float) -> None:
        """Record the time that a request waited for its model to be loaded."""
        self._waits.record(wait_s, {_MODEL: model})

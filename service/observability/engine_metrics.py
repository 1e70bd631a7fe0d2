"""Export the engines' statistics as metrics.

Gauges and counters over `EngineStats`, one series a model. The event loop adds engines and is told of their steps;
whichever thread shows metrics reads their last stats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Observation

from process.telemetry.usage import ProcessUsage
from service.engine.port import Engine
from service.generation.stats import EngineStats
from service.observability.telemetry import Instruments, Telemetry

_MODEL = "gen_ai.request.model"


def _kv_cache_usage(stats: EngineStats) -> float:
    """0 for an engine without a cache."""
    return (stats.num_blocks - stats.num_free_blocks) / stats.num_blocks if stats.num_blocks else 0.0


_GAUGES: tuple[tuple[str, str, str, Callable[[EngineStats], float]], ...] = (
    ("queue_depth", "", "Sequences that wait, preempted ones included.", lambda s: s.num_waiting),
    ("sequences_running", "", "Sequences that hold cache blocks and run.", lambda s: s.num_running),
    ("kv_blocks_used", "", "Cache blocks that sequences hold.", lambda s: s.num_blocks - s.num_free_blocks),
    ("kv_blocks_cached", "", "Free cache blocks that still serve a known prefix.", lambda s: s.num_cached_blocks),
    ("kv_blocks", "", "Cache blocks, all.", lambda s: s.num_blocks),
    ("kv_cache_usage", "1", "Part of the cache that sequences hold, from 0 to 1.", _kv_cache_usage),
    ("max_running", "", "Sequences that may run at a time, as the last steps were.", lambda s: s.max_running),
)
_COUNTERS: tuple[tuple[str, str, str, Callable[[EngineStats], float]], ...] = (
    ("busy_time", "s", "Time of all steps.", lambda s: s.busy_s),
    ("steps", "", "Steps computed.", lambda s: s.num_steps),
    ("preemptions", "", "Sequences that had to give their blocks back.", lambda s: s.num_preemptions),
    ("computed_tokens", "", "Tokens computed, prompts and recomputation included.", lambda s: s.num_computed_tokens),
    ("generated_tokens", "", "Tokens generated.", lambda s: s.num_generated_tokens),
    ("draft_tokens", "", "Tokens computed ahead, as guesses.", lambda s: s.num_draft_tokens),
    ("accepted_draft_tokens", "", "Guesses that were right.", lambda s: s.num_accepted_draft_tokens),
    ("prefix_query_tokens", "", "Prompt tokens looked up in the prefix cache.", lambda s: s.num_prefix_query_tokens),
    ("prefix_hit_tokens", "", "Prompt tokens found in the prefix cache.", lambda s: s.num_prefix_hit_tokens),
    ("replays", "", "Steps replayed from recordings of a device's work.", lambda s: s.num_replays),
)


_PROCESS_GAUGES: tuple[tuple[str, str, str, Callable[[ProcessUsage], int]], ...] = (
    ("memory", "By", "Resident memory of the engine's process.", lambda usage: usage.resident_bytes),
    ("open_files", "{file}", "Open descriptors of the engine's process.", lambda usage: usage.num_descriptors),
    ("threads", "{thread}", "Threads of the engine's process.", lambda usage: usage.num_threads),
)


class EngineMetrics:
    """The engines' series. `observer(model)` goes to the engine of that model, then `add` shows its stats.

    Engines in processes of their own show those's memory, descriptors and threads, too.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._instruments = telemetry.instruments
        self._engines: dict[str, Engine] = {}
        for name, unit, description, read in _GAUGES:
            telemetry.meter.create_observable_gauge(f"sluice.engine.{name}", [self._callback(read)], unit, description)
        for name, unit, description, read in _COUNTERS:
            telemetry.meter.create_observable_counter(
                f"sluice.engine.{name}", [self._callback(read)], unit, description
            )
        for name, unit, description, show in _PROCESS_GAUGES:
            telemetry.meter.create_observable_gauge(
                f"sluice.engine.process.{name}", [self._process_callback(show)], unit, description
            )

    def observer(self, model: str) -> StepHistograms:
        """Who is told of the steps of `model`'s engine."""
        return StepHistograms(model, self._instruments)

    def add(self, model: str, engine: Engine) -> None:
        """Show `model`, whose engine tells its last stats in any thread."""
        self._engines = {**self._engines, model: engine}  # replaced, not changed: another thread may be reading

    def remove(self, model: str) -> None:
        """Show it no more."""
        self._engines = {name: engine for name, engine in self._engines.items() if name != model}

    def _callback(self, read: Callable[[EngineStats], float]) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> list[Observation]:
            return [Observation(read(engine.stats()), {_MODEL: model}) for model, engine in self._engines.items()]

        return observe

    def _process_callback(
        self, show: Callable[[ProcessUsage], int]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            for model, engine in self._engines.items():
                if (pid := engine.pid) is not None and (usage := ProcessUsage.of(pid)) is not None:
                    yield Observation(show(usage), {_MODEL: model})

        return observe


class StepHistograms:
    """The times and sizes of one engine's steps; a `StepObserver`."""

    def __init__(self, model: str, instruments: Instruments) -> None:
        self._attributes = {_MODEL: model}
        self._instruments = instruments
        self._num_steps = 0

    def on_step(self, stats: EngineStats) -> None:
        """Record the step, if there was one: a report may also tell of an expired deadline alone."""
        if stats.num_steps > self._num_steps:
            self._instruments.step_duration.record(stats.step_time_s, self._attributes)
            self._instruments.step_sequences.record(stats.step_sequences, self._attributes)
        self._num_steps = stats.num_steps

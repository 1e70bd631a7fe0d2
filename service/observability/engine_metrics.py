"""Export the engines' statistics as metrics.

Gauges and counters of `EngineStats`, one series per model. The event loop adds engines and observes their steps; any
thread may read the metrics, which show the latest stats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Observation

from process.telemetry.usage import ProcessUsage
from service.engine.interface.port import Engine
from service.generation.stats import EngineStats
from service.observability.telemetry import Instruments, Telemetry

_MODEL = "gen_ai.request.model"


def _kv_cache_usage(stats: EngineStats) -> float:
    """Return the fraction of blocks in use; 0 for an engine without a cache."""
    return (stats.num_blocks - stats.num_free_blocks) / stats.num_blocks if stats.num_blocks else 0.0


_GAUGES: tuple[tuple[str, str, str, Callable[[EngineStats], float]], ...] = (
    ("queue_depth", "", "Sequences that wait, including preempted ones.", lambda s: s.num_waiting),
    ("sequences_running", "", "Sequences that hold cache blocks and run.", lambda s: s.num_running),
    ("kv_blocks_used", "", "Cache blocks that sequences hold.", lambda s: s.num_blocks - s.num_free_blocks),
    ("kv_blocks_cached", "", "Free cache blocks that hold a cached prefix.", lambda s: s.num_cached_blocks),
    ("kv_blocks", "", "All cache blocks.", lambda s: s.num_blocks),
    (
        "kv_blocks_adopted",
        "",
        "Cached blocks of an earlier process with which the engine started.",
        lambda s: s.num_adopted_blocks,
    ),
    ("states", "", "Slots for recurrent states.", lambda s: s.num_states),
    ("states_cached", "", "Slots that hold the recurrent state after a cached prefix.", lambda s: s.num_cached_states),
    ("states_size", "By", "Memory of all slots for recurrent states.", lambda s: s.num_states * s.state_bytes),
    ("kv_cache_usage", "1", "Fraction of the cache that sequences hold, from 0 to 1.", _kv_cache_usage),
    ("max_running", "", "Limit of running sequences, from the latest step times.", lambda s: s.max_running),
)
_COUNTERS: tuple[tuple[str, str, str, Callable[[EngineStats], float]], ...] = (
    ("busy_time", "s", "Total duration of steps.", lambda s: s.busy_s),
    ("steps", "", "Steps computed.", lambda s: s.num_steps),
    ("preemptions", "", "Sequences that were preempted.", lambda s: s.num_preemptions),
    ("computed_tokens", "", "Tokens computed, including prompts and recomputation.", lambda s: s.num_computed_tokens),
    ("generated_tokens", "", "Tokens generated.", lambda s: s.num_generated_tokens),
    ("draft_tokens", "", "Draft tokens computed.", lambda s: s.num_draft_tokens),
    ("accepted_draft_tokens", "", "Draft tokens accepted.", lambda s: s.num_accepted_draft_tokens),
    ("prefix_query_tokens", "", "Prompt tokens looked up in the prefix cache.", lambda s: s.num_prefix_query_tokens),
    ("prefix_hit_tokens", "", "Prompt tokens found in the prefix cache.", lambda s: s.num_prefix_hit_tokens),
    ("replays", "", "Steps replayed from CUDA graphs.", lambda s: s.num_replays),
)


_PROCESS_GAUGES: tuple[tuple[str, str, str, Callable[[ProcessUsage], int]], ...] = (
    ("memory", "By", "Resident memory of the engine's process.", lambda usage: usage.resident_bytes),
    ("open_files", "{file}", "Open descriptors of the engine's process.", lambda usage: usage.num_descriptors),
    ("threads", "{thread}", "Threads of the engine's process.", lambda usage: usage.num_threads),
)


class EngineMetrics:
    """The engines' series. `observer(model)` is passed to the engine of that model; `add` then exports its stats.

    Engines in separate processes also have series of memory, descriptors and threads.
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
        """Return the observer of the steps of `model`'s engine."""
        return StepHistograms(model, self._instruments)

    def add(self, model: str, engine: Engine) -> None:
        """Export the stats of `model`'s engine, which any thread may read."""
        self._engines = {**self._engines, model: engine}  # replaced, not modified: another thread may be reading

    def remove(self, model: str) -> None:
        """Remove the series of `model`."""
        self._engines = {name: engine for name, engine in self._engines.items() if name != model}

    def _callback(self, read: Callable[[EngineStats], float]) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Return a callback that observes a value of every engine's stats."""

        def observe(_options: CallbackOptions) -> list[Observation]:
            return [Observation(read(engine.stats()), {_MODEL: model}) for model, engine in self._engines.items()]

        return observe

    def _process_callback(
        self, show: Callable[[ProcessUsage], int]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Return a callback that observes a value of every engine's worker process."""

        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            for model, engine in self._engines.items():
                if (pid := engine.pid) is not None and (usage := ProcessUsage.of_process(pid)) is not None:
                    yield Observation(show(usage), {_MODEL: model})

        return observe


class StepHistograms:
    """Records the durations and sizes of one engine's steps. A `StepObserver`."""

    def __init__(self, model: str, instruments: Instruments) -> None:
        self._attributes = {_MODEL: model}
        self._instruments = instruments
        self._num_steps = 0

    def on_step(self, stats: EngineStats) -> None:
        """Record the step. A report without a new step, such as one of an expired deadline, is ignored."""
        if stats.num_steps > self._num_steps:
            self._instruments.step_duration.record(stats.step_time_s, self._attributes)
            self._instruments.step_sequences.record(stats.step_sequences, self._attributes)
        self._num_steps = stats.num_steps

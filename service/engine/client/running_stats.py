"""The statistics of an engine over all of its cores, which a restart or sleep ends."""

from __future__ import annotations

from service.generation.stats import EngineStats

_COUNTERS = (
    "busy_s",
    "num_steps",
    "num_preemptions",
    "num_computed_tokens",
    "num_generated_tokens",
    "num_draft_tokens",
    "num_accepted_draft_tokens",
    "num_prefix_query_tokens",
    "num_prefix_hit_tokens",
    "num_replays",
)


class RunningStats:
    """The last statistics of the present core. Counters include those of the cores before it."""

    def __init__(self) -> None:
        self.last = EngineStats()
        self._before: EngineStats | None = None  # the counters of earlier cores

    def update(self, stats: EngineStats) -> bool:
        """Take the statistics that the present core has reported. Return True if it has run a step since the last."""
        if self._before is not None:
            stats = _add(stats, self._before)
        has_stepped = stats.num_steps > self.last.num_steps
        self.last = stats
        return has_stepped

    def restart(self) -> None:
        """Reset all but the counters, since the core has ended."""
        self._before = self.last
        self.last = _add(EngineStats(), self.last)


def _add(stats: EngineStats, before: EngineStats) -> EngineStats:
    """Return `stats` with the counters of `before` added."""
    return stats._replace(**{name: getattr(stats, name) + getattr(before, name) for name in _COUNTERS})

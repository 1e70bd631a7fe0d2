"""The longest expected queue wait with which a request is admitted."""

from __future__ import annotations

from service.generation.stats import EngineStats

_BURST_TOKENS = 16_384  # of prompts that are admitted at once, for example 32 of 512 tokens
_SHORTEST_S, _LONGEST_S = 2.0, 30.0  # range of a limit that follows from the speed of prompts
_MIN_TOKENS = 64  # of a step that measures the speed of prompts
_MIN_TOKENS_EACH = 4  # per sequence of such a step
_DECAY = 0.9  # weight of earlier steps


class QueueWaitLimit:
    """The setting `max_queue_wait_s`; without it, the time in which the engine computes 16,384 tokens of prompts.

    That is at least 2 and at most 30 s, and 2 s until prompts were measured. Used by the event loop only.
    """

    def __init__(self, max_queue_wait_s: float | None) -> None:
        self._setting = max_queue_wait_s
        self._num_steps = 0
        self._num_tokens = 0.0  # of the measured steps, with decaying weight
        self._seconds = 0.0  # of the same steps, with the same weights

    def record_step(self, stats: EngineStats) -> None:
        """Record the last step if most of its tokens are those of prompts."""
        if stats.num_steps == self._num_steps:
            return
        self._num_steps = stats.num_steps
        if stats.step_tokens >= max(_MIN_TOKENS, _MIN_TOKENS_EACH * stats.step_sequences):
            self._num_tokens = _DECAY * self._num_tokens + stats.step_tokens
            self._seconds = _DECAY * self._seconds + stats.step_time_s

    @property
    def seconds(self) -> float:
        """The present limit."""
        if self._setting is not None:
            return self._setting
        computed_s = _BURST_TOKENS * self._seconds / self._num_tokens if self._num_tokens else 0.0
        return min(max(computed_s, _SHORTEST_S), _LONGEST_S)

"""Statistics of an engine."""

from __future__ import annotations

from typing import NamedTuple


class EngineStats(NamedTuple):
    """The state of the engine after a step. The fields of the second group only ever grow."""

    num_waiting: int = 0  # sequences that wait for blocks or for their turn, preempted ones included
    num_running: int = 0
    num_blocks: int = 0
    num_free_blocks: int = 0  # cached ones included: they are given up when space is needed
    num_cached_blocks: int = 0  # free, but still good for a prompt that begins alike
    step_time_s: float = 0.0  # of the last step
    step_tokens: int = 0  # computed in the last step
    step_sequences: int = 0  # of which they are
    max_running: int = 0  # sequences that may run at a time, as the last steps were

    busy_s: float = 0.0  # of all steps
    num_steps: int = 0
    num_preemptions: int = 0
    num_computed_tokens: int = 0
    num_generated_tokens: int = 0
    num_draft_tokens: int = 0  # computed ahead, as guesses
    num_accepted_draft_tokens: int = 0  # those that were what was then sampled
    num_prefix_query_tokens: int = 0  # prompt tokens that were looked up in the cache
    num_prefix_hit_tokens: int = 0  # those that were found
    num_replays: int = 0  # steps that a device replayed from a recording

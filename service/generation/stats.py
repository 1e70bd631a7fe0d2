"""Statistics of an engine."""

from __future__ import annotations

from typing import NamedTuple


class EngineStats(NamedTuple):
    """The state of the engine after a step. The fields of the second group are counters."""

    num_waiting: int = 0  # sequences that wait for blocks or for a slot, including preempted ones
    num_running: int = 0
    num_blocks: int = 0
    num_free_blocks: int = 0  # including cached ones, which are evicted when needed
    num_cached_blocks: int = 0  # free, and reusable for a prompt with the same prefix
    num_adopted_blocks: int = 0  # cached blocks that an earlier process computed and the engine started with
    num_states: int = 0  # slots for recurrent states, of running sequences and of cached prefixes; 0 without them
    num_cached_states: int = 0  # slots that hold the state after a cached prefix
    state_bytes: int = 0  # of a slot
    step_time_s: float = 0.0  # of the last step
    step_tokens: int = 0  # computed in the last step
    step_sequences: int = 0  # in the last step
    max_running: int = 0  # sequences that may run at a time, given the last steps
    decode_step_s: float = 0.0  # measured time of a step that decodes one sequence; 0 if unknown, like the next two
    decode_row_s: float = 0.0  # that each further sequence adds
    prompt_token_s: float = 0.0  # that each token of a prompt adds

    busy_s: float = 0.0  # of all steps
    num_steps: int = 0
    num_preemptions: int = 0
    num_computed_tokens: int = 0
    num_generated_tokens: int = 0
    num_draft_tokens: int = 0  # computed ahead
    num_accepted_draft_tokens: int = 0  # drafts equal to the sampled tokens
    num_prefix_query_tokens: int = 0  # prompt tokens that were looked up in the cache
    num_prefix_hit_tokens: int = 0  # prompt tokens that were found in the cache
    num_replays: int = 0  # steps that a device replayed from a recording

    @property
    def num_prompt_tokens(self) -> int:
        """The number of tokens of prompts that were computed, approximately: the last one gives a generated token."""
        num_decodes = self.num_generated_tokens - self.num_accepted_draft_tokens
        return max(self.num_computed_tokens - self.num_draft_tokens - num_decodes, 0)

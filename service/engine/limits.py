"""Limits derived from an engine's configuration."""

from __future__ import annotations

from service.engine.config import EngineConfig


def max_sequence_len(config: EngineConfig) -> int:
    """Return the maximum tokens of a prompt and its answer together.

    A sequence that has the whole cache must be able to reach its end; otherwise it could neither continue nor be
    helped by preempting others. Raise ValueError if `num_blocks` or `max_model_len` is None.
    """
    if config.num_blocks is None or config.max_model_len is None:
        raise ValueError("num_blocks and max_model_len must be set")
    return min(config.max_model_len, config.num_blocks * config.tokens_per_block)

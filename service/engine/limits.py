"""Limits that follow from an engine's sizes."""

from __future__ import annotations

from service.engine.config import EngineConfig


def max_sequence_len(config: EngineConfig) -> int:
    """Tokens of a prompt and its answer together, at most.

    A sequence alone in the cache must be able to reach its end, or it could neither run on nor make room. Raises
    ValueError if `num_blocks` or `max_model_len` is None.
    """
    if config.num_blocks is None or config.max_model_len is None:
        raise ValueError("num_blocks and max_model_len must be known before the engine is made")
    return min(config.max_model_len, config.num_blocks * config.tokens_per_block)

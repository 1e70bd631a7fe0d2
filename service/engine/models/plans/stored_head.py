"""A head in a checkpoint whose configuration ties it to the embedding."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from service.engine.models.checkpoint.checkpoint import Checkpoint, TensorSlice
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Tensors, as_floats, origin_of

_ROWS: Final = 4096  # that are compared at a time


def with_stored_head(plan: DecoderPlan, tensors: Tensors, checkpoint: Checkpoint) -> DecoderPlan:
    """Return the plan, with a head of its own if the checkpoint has one that differs from the embedding.

    Multimodal models are tied by default, which some of their files don't mean. transformers ties no such weights.
    """
    head, embedding = (
        origin_of(f"{module}.weight", plan, tensors).name for module in ("lm_head", "model.embed_tokens")
    )
    if not plan.is_tied or head not in checkpoint or embedding not in checkpoint:
        return plan
    return plan if _are_equal(checkpoint, head, embedding) else replace(plan, is_tied=False)


def _are_equal(checkpoint: Checkpoint, one: str, other: str) -> bool:
    """Return whether two matrices have the same numbers. A packed one equals none."""
    shape = checkpoint.shape(one)
    if shape != checkpoint.shape(other) or checkpoint.is_packed(one) or checkpoint.is_packed(other):
        return False
    for start in range(0, shape[0], _ROWS):
        part = TensorSlice(0, start, min(start + _ROWS, shape[0]))
        first, second = (as_floats(checkpoint.take(name, shape, part)) for name in (one, other))
        if not np.array_equal(first, second):
            return False
    return True

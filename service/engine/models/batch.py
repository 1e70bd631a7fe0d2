"""What one step computes: the tokens of all its sequences, laid flat.

Owns the one shape in which work reaches a model. Plain data, made by the model runner for one step. A prefill, a piece
of one and a decode differ only in their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Span:
    """One sequence's part of a batch."""

    query_start: int  # row of its first new token in the batch
    num_queries: int  # its new tokens
    context_length: int  # its tokens after the step: those in the cache and the new ones
    block_table: Sequence[int]  # the blocks that hold its context; may be longer


@dataclass(frozen=True, slots=True)
class Batch:
    """New tokens of one step. The tensors are int64, on the model's device."""

    token_ids: Tensor  # [tokens]
    positions: Tensor  # [tokens], of each token in its sequence, from 0
    slots: Tensor  # [tokens], where each token's keys and values go
    output_rows: Tensor  # [rows], the tokens whose logits are wanted
    spans: Sequence[Span]  # in the order of their tokens

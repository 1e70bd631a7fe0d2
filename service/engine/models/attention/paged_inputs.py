"""A batch's arrays for a paged attention kernel, copied to the device in one transfer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from service.engine.core.batch import Batch
from service.engine.device.transfer import to_device
from service.engine.models.attention.inputs import Inputs, slots_of


@dataclass(frozen=True, slots=True)
class PagedInputs(Inputs):
    """The inputs of a forward pass, with the offsets of each sequence. The additional tensors are int32."""

    query_offsets: Tensor  # [sequences + 1]: sequence i has the tokens from its offset up to the next one
    context_lengths: Tensor  # [sequences]
    block_tables: Tensor  # [sequences, blocks]
    max_queries: int  # the most new tokens of a sequence
    max_context: int
    has_single_queries: bool  # of a sequence with one new token

    @classmethod
    def from_batch(cls, batch: Batch, block_size: int, device: torch.device) -> PagedInputs:
        """Copy all arrays in one transfer from pinned memory."""
        token_arrays = (
            batch.token_ids,
            batch.positions,
            slots_of(batch, block_size).astype(np.int32),
            batch.output_rows,
        )
        num_queries = np.diff(batch.row_offsets)
        bounds = (batch.row_offsets, batch.context_lengths, batch.block_tables.reshape(-1))
        parts = [*token_arrays, *bounds]
        flat = to_device(np.concatenate(parts), device)
        of_tokens, of_bounds = flat.tensor_split((sum(map(len, token_arrays)),))
        # Torch's indexed copies need int64.
        token_ids, positions, slots, output_rows = torch.split(of_tokens.long(), [len(part) for part in token_arrays])
        query_offsets, lengths, tables = torch.split(of_bounds, [len(part) for part in bounds])
        return cls(
            token_ids,
            positions,
            slots,
            output_rows,
            query_offsets,
            lengths,
            tables.view(batch.block_tables.shape),
            int(num_queries.max()),
            int(batch.context_lengths.max()),
            bool((num_queries == 1).any()),
        )

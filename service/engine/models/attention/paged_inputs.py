"""A batch's arrays for a kernel over block tables, copied to the device at once."""

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
    """What a forward reads, and which part of it belongs to which sequence. The added tensors are int32."""

    query_offsets: Tensor  # [sequences + 1]: sequence i has the tokens from its offset up to the next one
    key_offsets: Tensor  # [sequences + 1], the same of contexts, as if they stood one behind the other
    context_lengths: Tensor  # [sequences]
    block_tables: Tensor  # [sequences, blocks]
    max_queries: int  # of a sequence
    max_context: int

    @classmethod
    def of(cls, batch: Batch, block_size: int, device: torch.device) -> PagedInputs:
        """All in one copy from pinned memory."""
        words = (batch.token_ids, batch.positions, slots_of(batch, block_size).astype(np.int32), batch.output_rows)
        key_offsets = np.concatenate(([0], np.cumsum(batch.context_lengths)), dtype=np.int32)
        bounds = (batch.row_offsets, key_offsets, batch.context_lengths, batch.block_tables.reshape(-1))
        parts = [*words, *bounds]
        flat = to_device(np.concatenate(parts), device)
        of_words, of_bounds = flat.tensor_split((sum(map(len, words)),))
        # Torch's copies to given places want int64.
        token_ids, positions, slots, output_rows = torch.split(of_words.long(), [len(part) for part in words])
        query_offsets, keys, lengths, tables = torch.split(of_bounds, [len(part) for part in bounds])
        return cls(
            token_ids,
            positions,
            slots,
            output_rows,
            query_offsets,
            keys,
            lengths,
            tables.view(batch.block_tables.shape),
            int(np.diff(batch.row_offsets).max()),
            int(batch.context_lengths.max()),
        )

"""Convert a batch's arrays to torch tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from service.engine.core.batch import Batch


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a forward pass and the cache slots that it writes: int64 tensors on the model's device."""

    token_ids: Tensor  # [tokens]
    positions: Tensor  # [tokens]
    slots: Tensor  # [tokens], the slots of a KVCache to which the tokens' keys and values are written
    output_rows: Tensor  # [rows]

    @classmethod
    def from_batch(cls, batch: Batch, block_size: int, device: torch.device) -> Inputs:
        """Copy the four arrays to the device in one transfer."""
        num_tokens = len(batch.token_ids)
        parts = (batch.token_ids, batch.positions, slots_of(batch, block_size), batch.output_rows)
        flat = torch.from_numpy(np.concatenate(parts, dtype=np.int64)).to(device)
        token_ids, positions, slots = flat[: 3 * num_tokens].view(3, num_tokens).unbind()
        return cls(token_ids, positions, slots, flat[3 * num_tokens :])


def slots_of(batch: Batch, block_size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the slot of each token: slot s is offset s % block_size of block s // block_size."""
    sequences = np.repeat(np.arange(len(batch.context_lengths)), np.diff(batch.row_offsets))
    columns, offsets = np.divmod(batch.positions, np.int32(block_size))
    return batch.block_tables[sequences, columns].astype(np.int64) * block_size + offsets

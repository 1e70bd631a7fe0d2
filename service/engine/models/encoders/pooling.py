"""Pool the states of a text's tokens to a vector. Rows are padded at their ends."""

from __future__ import annotations

import torch
from torch import Tensor

from service.engine.models.checkpoint.encoders.sentence_files import Pooling


def pool(states: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
    """Return float32 vectors [texts, hidden size] of `states` [texts, longest, hidden size] and `lengths` [texts]."""
    states = states.float()
    if pooling == "cls":
        return states[:, 0]
    if pooling == "lasttoken":
        return states[torch.arange(len(states), device=states.device), lengths - 1]
    is_token = torch.arange(states.shape[1], device=states.device) < lengths[:, None]
    return (states * is_token[..., None]).sum(1) / lengths[:, None]

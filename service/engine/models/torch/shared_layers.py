"""Layers that several ranks compute together: each holds a part of the weights, and torch.distributed adds up.

All ranks of the process group call the same layers in the same order.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import embedding, pad

from service.engine.models.torch.linear import Linear, lay_out
from service.engine.models.torch.share import Share


class SummedLinear:
    """A Linear of which each rank has some inputs; the ranks' results are added up, and all have the sum.

    Its bias is one rank's only.
    """

    def __init__(self, own: Linear) -> None:
        self._own = own

    def __call__(self, x: Tensor) -> Tensor:
        y = self._own(x)
        dist.all_reduce(y)
        return y

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return self(x).add_(residual)


class SharedEmbedding:
    """Rows of tokens' vectors, of which each rank has a run from `first_id` on; all ranks get every token's vector."""

    def __init__(self, own: Tensor, first_id: int) -> None:
        self._own = own
        self._first_id = first_id

    def __call__(self, token_ids: Tensor) -> Tensor:
        """[tokens, hidden] in the type of the weights."""
        places = token_ids - self._first_id
        is_elsewhere = (places < 0) | (places >= self._own.shape[0])
        vectors = embedding(places.masked_fill_(is_elsewhere, 0), self._own)
        vectors.masked_fill_(is_elsewhere[:, None], 0)
        dist.all_reduce(vectors)  # exact: all ranks but one add zeros
        return vectors


class GatheredHead:
    """A Linear to the vocabulary, of which each rank has a run of the outputs; rank 0 gets all, the others their own.

    A gather wants parts of one size, so that a rank with fewer outputs fills up with zeros, and the end is cut off.
    """

    def __init__(self, own: Tensor, share: Share, vocab_size: int) -> None:
        """`own` [outputs of the rank, hidden]."""
        missing = share.num_vocabulary_rows(vocab_size) - own.shape[0]
        self._own = lay_out(pad(own, (0, 0, 0, missing)))
        self._share = share
        self._vocab_size = vocab_size

    def __call__(self, x: Tensor) -> Tensor:
        mine = self._own(x)
        if self._share.rank:
            dist.gather(mine, dst=0)
            return mine
        parts = [torch.empty_like(mine) for _ in range(self._share.num_ranks)]
        dist.gather(mine, parts, dst=0)
        return torch.cat(parts, dim=1)[:, : self._vocab_size]

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return residual + self(x)

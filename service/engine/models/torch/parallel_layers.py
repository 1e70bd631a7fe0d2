"""Layers for tensor parallelism: each rank holds a shard of the weights, and torch.distributed combines the results.

All ranks of the process group must call the same layers in the same order.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import embedding, pad

from service.engine.models.torch.layers.linear import Linear, lay_out
from service.engine.models.torch.shard import Shard


class RowParallelLinear:
    """A Linear whose inputs are sharded. An all-reduce sums the ranks' results, so that all ranks have the sum.

    `own` is this rank's shard; only one rank's shard has the bias.
    """

    def __init__(self, own: Linear) -> None:
        self._own = own

    def __call__(self, x: Tensor) -> Tensor:
        y = self._own(x)
        dist.all_reduce(y)
        return y

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return self(x).add_(residual)


class VocabParallelEmbedding:
    """An embedding whose rows are sharded. All ranks get every token's vector."""

    def __init__(self, own: Tensor, first_id: int) -> None:
        """`own` has this rank's rows, those of the tokens from `first_id` on."""
        self._own = own
        self._first_id = first_id

    def __call__(self, token_ids: Tensor) -> Tensor:
        """Return vectors [tokens, hidden] in the type of the weights."""
        rows = token_ids - self._first_id
        is_of_other_rank = (rows < 0) | (rows >= self._own.shape[0])
        vectors = embedding(rows.masked_fill_(is_of_other_rank, 0), self._own)
        vectors.masked_fill_(is_of_other_rank[:, None], 0)
        dist.all_reduce(vectors)  # exact: all ranks but one add zeros
        return vectors


class ParallelLMHead:
    """The output layer (LM head), sharded by vocabulary. Rank 0 gets all logits, each other rank only its own.

    A gather needs shards of equal size, so a rank with fewer outputs pads them with zeros; rank 0 removes the padding.
    """

    def __init__(self, own: Tensor, bias: Tensor | None, shard: Shard, vocab_size: int) -> None:
        """`own` is this rank's weight [outputs of the rank, hidden]; `bias` the bias of these outputs."""
        missing = shard.num_vocabulary_rows(vocab_size) - own.shape[0]
        self._own = lay_out(pad(own, (0, 0, 0, missing)), None if bias is None else pad(bias, (0, missing)))
        self._shard = shard
        self._vocab_size = vocab_size

    def __call__(self, x: Tensor) -> Tensor:
        outputs = self._own(x)
        if self._shard.rank:
            dist.gather(outputs, dst=0)
            return outputs
        parts = [torch.empty_like(outputs) for _ in range(self._shard.num_ranks)]
        dist.gather(outputs, parts, dst=0)
        return torch.cat(parts, dim=1)[:, : self._vocab_size]

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return residual + self(x)

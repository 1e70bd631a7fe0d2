"""The shard of a model that one rank of tensor parallelism holds. The module does not import torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from service.engine.models.checkpoint.checkpoint import TensorSlice
from service.engine.models.torch.decoder_shape import DecoderShape, decoder_shape, decoder_unsupported_reason


@dataclass(frozen=True, slots=True)
class Shard:
    """The shard of rank `rank` of `num_ranks`: contiguous heads, inner units and vocabulary rows."""

    rank: int = 0
    num_ranks: int = 1

    def shape_of(self, whole: DecoderShape) -> DecoderShape:
        """Return the sizes of the rank's shard; vocabulary and hidden size are those of the whole model."""
        return replace(
            whole,
            num_heads=whole.num_heads // self.num_ranks,
            num_kv_heads=max(1, whole.num_kv_heads // self.num_ranks),
            intermediate_size=whole.intermediate_size // self.num_ranks,
        )

    def outputs(self, count: int) -> TensorSlice:
        """Return the rank's rows of a weight [outputs, inputs] with `count` outputs, split evenly."""
        return self._part(0, count)

    def inputs(self, count: int) -> TensorSlice:
        """Return the rank's columns of a weight [outputs, inputs] with `count` inputs, split evenly."""
        return self._part(1, count)

    def kv_rows(self, shape: DecoderShape) -> TensorSlice:
        """Return the rank's rows of key or value heads. With fewer heads than ranks, several ranks have the same."""
        num_own = max(1, shape.num_kv_heads // self.num_ranks)
        first = self.rank * shape.num_kv_heads // self.num_ranks
        return TensorSlice(0, first * shape.head_dim, (first + num_own) * shape.head_dim)

    def vocabulary(self, vocab_size: int) -> TensorSlice:
        """Return the rank's rows of the embedding and of the head, split evenly; the last ranks may have fewer."""
        each = self.num_vocabulary_rows(vocab_size)
        start = min(self.rank * each, vocab_size)
        return TensorSlice(0, start, min(start + each, vocab_size))

    def num_vocabulary_rows(self, vocab_size: int) -> int:
        """Return the largest number of vocabulary rows of a rank."""
        return -(-vocab_size // self.num_ranks)

    def _part(self, axis: int, count: int) -> TensorSlice:
        each = count // self.num_ranks
        return TensorSlice(axis, self.rank * each, (self.rank + 1) * each)


WHOLE = Shard()


def parallel_unsupported_reason(config: Any, num_ranks: int) -> str | None:
    """Return why a model cannot be sharded to `num_ranks` ranks, or None if it can."""
    reason = decoder_unsupported_reason(config)
    if reason is not None:
        return f"engine.tensor_parallel needs the fused decoder, and {reason}"
    shape = decoder_shape(config)
    if num_ranks > shape.vocab_size:
        return f"engine.tensor_parallel {num_ranks} exceeds its vocabulary size, {shape.vocab_size}"
    for name, count in (("attention heads", shape.num_heads), ("inner units", shape.intermediate_size)):
        if count % num_ranks:
            return f"engine.tensor_parallel {num_ranks} doesn't divide its {count} {name}"
    if shape.num_kv_heads % num_ranks and num_ranks % shape.num_kv_heads:
        heads = f"its {shape.num_kv_heads} key heads"
        return f"engine.tensor_parallel {num_ranks} neither divides nor is a multiple of {heads}"
    return None


def num_rank_parameters(config: Any, num_ranks: int) -> int:
    """Return the number of weights of the largest rank, for a model that can be sharded."""
    whole = decoder_shape(config)
    shard = Shard(0, num_ranks)
    own = shard.shape_of(whole)
    hidden, inner = whole.hidden_size, own.intermediate_size
    query, key = own.num_heads * whole.head_dim, own.num_kv_heads * whole.head_dim
    attention = (query + 2 * key) * (hidden + whole.has_qkv_bias) + query * hidden + whole.has_output_bias * hidden
    mlp = 2 * inner * (hidden + whole.has_mlp_bias) + inner * hidden + whole.has_mlp_bias * hidden
    norms = 2 * hidden + 2 * whole.has_head_norm * whole.head_dim
    vocabulary = shard.num_vocabulary_rows(whole.vocab_size) * hidden * (1 if whole.is_tied else 2)
    return whole.num_layers * (attention + mlp + norms) + vocabulary + hidden

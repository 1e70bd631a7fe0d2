"""The part of a model that one of several ranks holds. No torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from service.engine.models.checkpoint.checkpoint import TensorSlice
from service.engine.models.torch.decoder_shape import DecoderShape, decoder_shape, lean_refusal


@dataclass(frozen=True, slots=True)
class Share:
    """What rank `rank` of `num_ranks` has: a run of heads, of inner units and of the vocabulary."""

    rank: int = 0
    num_ranks: int = 1

    def shape_of(self, whole: DecoderShape) -> DecoderShape:
        """The sizes of the rank's own part; vocabulary and hidden size are the whole model's."""
        return replace(
            whole,
            num_heads=whole.num_heads // self.num_ranks,
            num_kv_heads=max(1, whole.num_kv_heads // self.num_ranks),
            intermediate_size=whole.intermediate_size // self.num_ranks,
        )

    def outputs(self, count: int) -> TensorSlice:
        """Rows of a weight [outputs, inputs] with `count` outputs, which the ranks share evenly."""
        return self._part(0, count)

    def inputs(self, count: int) -> TensorSlice:
        """Columns of a weight [outputs, inputs] with `count` inputs, which the ranks share evenly."""
        return self._part(1, count)

    def kv_rows(self, shape: DecoderShape) -> TensorSlice:
        """Rows of the key or value heads of `shape`. Where there are fewer than ranks, several have the same."""
        num_own = max(1, shape.num_kv_heads // self.num_ranks)
        first = self.rank * shape.num_kv_heads // self.num_ranks
        return TensorSlice(0, first * shape.head_dim, (first + num_own) * shape.head_dim)

    def vocabulary(self, vocab_size: int) -> TensorSlice:
        """Rows of the embedding and of the head: as many for each, but for the last ranks, which may have fewer."""
        each = self.num_vocabulary_rows(vocab_size)
        start = min(self.rank * each, vocab_size)
        return TensorSlice(0, start, min(start + each, vocab_size))

    def num_vocabulary_rows(self, vocab_size: int) -> int:
        """The most that a rank has."""
        return -(-vocab_size // self.num_ranks)

    def _part(self, axis: int, count: int) -> TensorSlice:
        each = count // self.num_ranks
        return TensorSlice(axis, self.rank * each, (self.rank + 1) * each)


WHOLE = Share()


def parallel_refusal(config: Any, num_ranks: int) -> str | None:
    """Why `num_ranks` ranks can't share the model of a configuration; None if they can."""
    refusal = lean_refusal(config)
    if refusal is not None:
        return f"with engine.tensor_parallel only the lean forward serves, and {refusal}"
    shape = decoder_shape(config)
    if num_ranks > shape.vocab_size:
        return f"engine.tensor_parallel {num_ranks} exceeds its vocabulary, {shape.vocab_size}"
    for what, count in (("attention heads", shape.num_heads), ("inner units", shape.intermediate_size)):
        if count % num_ranks:
            return f"engine.tensor_parallel {num_ranks} doesn't divide its {count} {what}"
    if shape.num_kv_heads % num_ranks and num_ranks % shape.num_kv_heads:
        heads = f"its {shape.num_kv_heads} key heads"
        return f"engine.tensor_parallel {num_ranks} neither divides nor is a multiple of {heads}"
    return None


def num_rank_parameters(config: Any, num_ranks: int) -> int:
    """Weights that the rank with the most of them has, of a model that `parallel_refusal` lets through."""
    whole = decoder_shape(config)
    share = Share(0, num_ranks)
    own = share.shape_of(whole)
    hidden, inner = whole.hidden_size, own.intermediate_size
    query, key = own.num_heads * whole.head_dim, own.num_kv_heads * whole.head_dim
    attention = (query + 2 * key) * (hidden + whole.has_qkv_bias) + query * hidden + whole.has_output_bias * hidden
    mlp = 2 * inner * (hidden + whole.has_mlp_bias) + inner * hidden + whole.has_mlp_bias * hidden
    norms = 2 * hidden + 2 * whole.has_head_norm * whole.head_dim
    vocabulary = share.num_vocabulary_rows(whole.vocab_size) * hidden * (1 if whole.is_tied else 2)
    return whole.num_layers * (attention + mlp + norms) + vocabulary + hidden

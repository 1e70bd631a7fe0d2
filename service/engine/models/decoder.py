"""The lean forward of Llama, Qwen2 and Qwen3, with queries, keys and values in one product, gate and up in another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding, silu

from service.engine.batch import Batch
from service.engine.kv_cache import CacheShape, KVCache
from service.engine.models.adapter_files import Adapter
from service.engine.models.attention import AttentionPlan
from service.engine.models.decoder_shape import DecoderShape
from service.engine.models.fused_adapter import fused_sums
from service.engine.models.inputs import Inputs
from service.engine.models.linear import Linear
from service.engine.models.low_rank import LowRankTable
from service.engine.models.ops import rms_norm, rms_norm_, rotate_
from service.engine.models.scores import Scores
from service.engine.models.shared_layers import SharedEmbedding
from service.engine.models.thread import prepare_thread


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer. Queries and keys have their rotary pairs side by side (`ops.interleave_pairs`)."""

    attention_norm: Tensor  # [hidden]
    qkv: Linear  # hidden → (heads + 2 * kv heads) * head dim
    head_norm: Tensor | None  # [heads + kv heads, head dim]
    attention_output: Linear
    mlp_norm: Tensor  # [hidden]
    gate_up: Linear  # hidden → 2 * intermediate
    down: Linear


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """All weights. The embedding stays in its stored type and is widened after the lookup."""

    token_embedding: Tensor | SharedEmbedding  # [vocabulary, hidden]
    layers: tuple[Layer, ...]
    norm: Tensor  # [hidden]
    head: Linear  # hidden → vocabulary
    rotation: Tensor  # complex64 [positions, 1, head dim / 2]


class Decoder:
    """A Backend for Llama-like models; `dtype` is the type of its arithmetic and of its cache."""

    def __init__(self, shape: DecoderShape, weights: DecoderWeights, dtype: torch.dtype) -> None:
        self._shape = shape
        self._weights = weights
        self._dtype = dtype
        self._scale = shape.head_dim**-0.5
        self._cache_shape = CacheShape(shape.num_layers, shape.num_kv_heads, shape.head_dim, shape.head_dim, dtype)
        self._cache: KVCache | None = None
        self._adapters = LowRankTable()

    def bytes_per_block(self, block_size: int) -> int:
        """Bytes of cache for the keys and values of `block_size` tokens."""
        return self._cache_shape.bytes_per_slot * block_size

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Make the cache, once, before the first step."""
        self._cache = KVCache(self._cache_shape, num_blocks, block_size, self._weights.norm.device)

    def put_adapter(self, place: int, adapter: Adapter) -> None:
        """Hold an adapter for the sequences of batches that name its place. Raises AdapterRefused."""
        self._adapters.put(place, fused_sums(adapter, self._shape, self._dtype, self._weights.norm.device))

    def drop_adapter(self, place: int) -> None:
        """Forget the adapter of a place."""
        self._adapters.drop(place)

    def prepare_thread(self, num_threads: int | None) -> None:
        """Set what the calling thread needs; `num_threads` None leaves torch's own number."""
        prepare_thread(num_threads)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """Store the batch's keys and values and return the logits, float32 [output rows, vocabulary]."""
        if self._cache is None:
            raise RuntimeError("allocate() comes before forward()")
        weights, epsilon = self._weights, self._shape.norm_epsilon
        inputs = Inputs.of(batch, self._cache.block_size, self._cache.device)
        rotation = weights.rotation.index_select(0, inputs.positions)
        attend = AttentionPlan(self._cache, batch, Scores(self._scale))
        added = self._adapters.for_batch(batch, self._cache.device)
        hidden = self._embed(inputs.token_ids)
        for index, layer in enumerate(weights.layers):
            normed = rms_norm(hidden, layer.attention_norm, epsilon)
            heads = layer.qkv(normed)
            added.add((index, "qkv"), normed, heads)
            heads = heads.view(hidden.shape[0], -1, self._shape.head_dim)
            self._rotate(heads, layer, rotation)
            self._cache.write(index, inputs.slots, heads[:, self._shape.num_heads :])
            attended = attend(index, heads[:, : self._shape.num_heads]).flatten(1)
            hidden = layer.attention_output.add_to(hidden, attended)
            added.add((index, "attention_output"), attended, hidden)
            normed = rms_norm(hidden, layer.mlp_norm, epsilon)
            both = layer.gate_up(normed)
            added.add((index, "gate_up"), normed, both)
            gate, up = both.chunk(2, dim=-1)
            inner = silu(gate).mul_(up)
            hidden = layer.down.add_to(hidden, inner)
            added.add((index, "down"), inner, hidden)
        chosen = hidden.index_select(0, inputs.output_rows)
        return weights.head(rms_norm(chosen, weights.norm, epsilon)).float()

    def _embed(self, token_ids: Tensor) -> Tensor:
        table = self._weights.token_embedding
        vectors = embedding(token_ids, table) if isinstance(table, Tensor) else table(token_ids)
        return vectors.to(self._dtype)

    def _rotate(self, heads: Tensor, layer: Layer, rotation: Tensor) -> None:
        """Turn queries and keys, which come first in `heads` [tokens, heads + 2 * kv heads, head dim], in place."""
        rotated = heads[:, : self._shape.num_heads + self._shape.num_kv_heads]
        if layer.head_norm is not None:
            rms_norm_(rotated, layer.head_norm, self._shape.norm_epsilon)
        rotate_(rotated, rotation)

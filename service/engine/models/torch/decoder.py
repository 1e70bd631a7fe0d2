"""The forward pass of Llama, Qwen2 and Qwen3, with fused projections: queries, keys and values; gate and up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding, silu

from service.engine.core.batch import Batch
from service.engine.models.attention.accelerator import Accelerator, make_cache
from service.engine.models.attention.attention import AttentionPlan
from service.engine.models.attention.decode_graphs import DecodeGraphs
from service.engine.models.attention.inputs import Inputs
from service.engine.models.attention.kv_cache import CacheShape, KVCache
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.paged_inputs import PagedInputs
from service.engine.models.attention.scores import Scores
from service.engine.models.attention.varlen import VarlenPlan
from service.engine.models.checkpoint.adapter_files import Adapter
from service.engine.models.torch.decoder_shape import DecoderShape
from service.engine.models.torch.fused_adapter import fused_sums
from service.engine.models.torch.linear import Linear
from service.engine.models.torch.low_rank import NOTHING_ADDED, AddedSums, LowRankTable
from service.engine.models.torch.ops import rms_norm, rms_norm_, rotate_
from service.engine.models.torch.parallel_layers import VocabParallelEmbedding
from service.engine.models.torch.thread import prepare_thread


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one layer. The rotary pairs of queries and keys are adjacent (`ops.interleave_pairs`)."""

    attention_norm: Tensor  # [hidden]
    qkv: Linear  # hidden → (heads + 2 * kv heads) * head dim
    head_norm: Tensor | None  # [heads + kv heads, head dim]
    attention_output: Linear
    mlp_norm: Tensor  # [hidden]
    gate_up: Linear  # hidden → 2 * intermediate
    down: Linear


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """The weights of a model. The embedding keeps its stored type and is converted after the lookup."""

    token_embedding: Tensor | VocabParallelEmbedding  # [vocabulary, hidden]
    layers: tuple[Layer, ...]
    norm: Tensor  # [hidden]
    head: Linear  # hidden → vocabulary
    rotation: Tensor  # complex64 [positions, 1, head dim / 2]


class Decoder:
    """A Backend for Llama-like models. `dtype` is the compute type and, without `cache_dtype`, the cache's type."""

    def __init__(
        self,
        shape: DecoderShape,
        weights: DecoderWeights,
        dtype: torch.dtype,
        accelerator: Accelerator | None = None,
        cache_dtype: torch.dtype | None = None,
    ) -> None:
        """With an `accelerator` whose kernel fits, attention is one call per layer, and decodes are recorded."""
        self._shape = shape
        self._weights = weights
        self._dtype = dtype
        self._scores = Scores(shape.head_dim**-0.5)
        self._cache_shape = CacheShape(
            shape.num_layers, shape.num_kv_heads, shape.head_dim, shape.head_dim, dtype, cache_dtype
        )
        self._cache: KVCache | PageCache | None = None
        self._adapters = LowRankTable()
        self._accelerator = accelerator
        self._graphs: DecodeGraphs | None = None

    @property
    def num_replays(self) -> int:
        """The number of replayed steps."""
        return 0 if self._graphs is None else self._graphs.num_replays

    def bytes_per_block(self, block_size: int) -> int:
        """Return the cache bytes for the keys and values of `block_size` tokens."""
        return self._cache_shape.bytes_per_slot * block_size

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Allocate the cache. It replaces a cache that was allocated to measure a step."""
        self._cache = self._graphs = None  # frees the old cache's memory before the new one is allocated
        self._cache = make_cache(self._accelerator, self._cache_shape, num_blocks, block_size, self._device)

    @torch.inference_mode()
    def record_decodes(self) -> None:
        """Record decodes over the current cache, if the accelerator can record its attention."""
        if self._accelerator is not None and isinstance(cache := self._cache, PageCache):
            limits = self._accelerator.limits
            graphs = DecodeGraphs(self._compute_paged, limits, cache.block_size, cache.scratch_block, self._device)
            graphs.record(self._accelerator.recorder)
            self._graphs = graphs

    def put_adapter(self, slot: int, adapter: Adapter) -> None:
        """Store an adapter in a slot, for batches that refer to the slot. Raise AdapterRejected if unsupported."""
        self._adapters.put(slot, fused_sums(adapter, self._shape, self._dtype, self._device))

    def drop_adapter(self, slot: int) -> None:
        """Remove the adapter of a slot."""
        self._adapters.drop(slot)

    def prepare_thread(self, num_threads: int | None) -> None:
        """Configure the calling thread; with `num_threads` None torch chooses the number."""
        prepare_thread(num_threads)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """Store the batch's keys and values, and return the logits, float32 [output rows, vocabulary]."""
        cache = self._cache
        if cache is None:
            raise RuntimeError("allocate() must be called before forward()")
        if self._graphs is not None and (logits := self._graphs.run(batch)) is not None:
            return logits
        added = self._adapters.for_batch(batch, cache.device)
        if isinstance(cache, PageCache):
            return self._compute_paged(PagedInputs.from_batch(batch, cache.block_size, cache.device), added)
        inputs = Inputs.from_batch(batch, cache.block_size, cache.device)
        return self._compute(cache, inputs, AttentionPlan(cache, batch, self._scores), added)

    def _compute_paged(self, inputs: PagedInputs, added: AddedSums = NOTHING_ADDED) -> Tensor:
        cache = self._cache
        assert self._accelerator is not None  # noqa: S101  a page cache implies an accelerator
        assert isinstance(cache, PageCache)  # noqa: S101
        return self._compute(cache, inputs, VarlenPlan(self._accelerator.kernel, cache, inputs, self._scores), added)

    def _compute(
        self, cache: KVCache | PageCache, inputs: Inputs, attend: Callable[[int, Tensor], Tensor], added: AddedSums
    ) -> Tensor:
        """Compute the layers, with `attend` for attention, and return float32 logits of the output rows."""
        weights, epsilon = self._weights, self._shape.norm_epsilon
        rotation = weights.rotation.index_select(0, inputs.positions)
        hidden = self._embed(inputs.token_ids)
        for index, layer in enumerate(weights.layers):
            normed = rms_norm(hidden, layer.attention_norm, epsilon)
            heads = layer.qkv(normed)
            added.add((index, "qkv"), normed, heads)
            heads = heads.view(hidden.shape[0], -1, self._shape.head_dim)
            self._rotate(heads, layer, rotation)
            cache.write(index, inputs.slots, heads[:, self._shape.num_heads :])
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

    @property
    def _device(self) -> torch.device:
        return self._weights.norm.device

    def _embed(self, token_ids: Tensor) -> Tensor:
        table = self._weights.token_embedding
        vectors = embedding(token_ids, table) if isinstance(table, Tensor) else table(token_ids)
        return vectors.to(self._dtype)

    def _rotate(self, heads: Tensor, layer: Layer, rotation: Tensor) -> None:
        """Rotate queries and keys, the first rows of `heads` [tokens, heads + 2 * kv heads, head dim], in place."""
        rotated = heads[:, : self._shape.num_heads + self._shape.num_kv_heads]
        if layer.head_norm is not None:
            rms_norm_(rotated, layer.head_norm, self._shape.norm_epsilon)
        rotate_(rotated, rotation)

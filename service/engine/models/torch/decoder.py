"""The forward pass of a layer plan in torch, with fused projections: queries, keys and values; gate and up."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import embedding

from service.engine.core.batch import Batch
from service.engine.models.attention.accelerator import Accelerator, make_cache
from service.engine.models.attention.decode_graphs import DecodeGraphs
from service.engine.models.attention.inputs import Inputs
from service.engine.models.attention.kv_cache import CacheShape, KVCache
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.paged_inputs import PagedInputs
from service.engine.models.checkpoint.adapter_files import Adapter
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Tensors
from service.engine.models.torch.attention_steps import AttentionStep, DeviceAttention, PlainAttention
from service.engine.models.torch.fused_adapter import fused_sums
from service.engine.models.torch.layers.experts import Experts
from service.engine.models.torch.layers.layer import Layer
from service.engine.models.torch.layers.linear import Linear
from service.engine.models.torch.layers.low_rank import NOTHING_ADDED, AddedSums, LowRankTable
from service.engine.models.torch.layers.norm import Norm
from service.engine.models.torch.parallel_layers import VocabParallelEmbedding
from service.engine.models.torch.thread import prepare_thread

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """The weights of a model. The embedding keeps its stored type and is converted after the lookup."""

    token_embedding: Tensor | VocabParallelEmbedding  # [vocabulary, hidden]
    layers: tuple[Layer, ...]
    norm: Norm
    head: Linear  # hidden → vocabulary
    rotations: tuple[Tensor, ...]  # by rotary table, complex64 [positions, 1, rotated pairs]


class Decoder:
    """A Backend for layer plans. `dtype` is the compute type and, without `cache_dtype`, the cache's type."""

    def __init__(
        self,
        plan: DecoderPlan,
        tensors: Tensors,
        weights: DecoderWeights,
        dtype: torch.dtype,
        *,
        accelerator: Accelerator | None = None,
        cache_dtype: torch.dtype | None = None,
    ) -> None:
        """With an `accelerator` whose kernels fit, they compute attention, and decodes are recorded.

        `tensors` are the checkpoint's names, which adapters use.
        """
        self._plan = plan
        self._tensors = tensors
        self._weights = weights
        self._dtype = dtype
        attention = weights.layers[0].attention.plan
        self._cache_shape = CacheShape(
            len(weights.layers), attention.num_kv_heads, attention.head_dim, attention.head_dim, dtype, cache_dtype
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
        """Record decodes over the current cache, if the accelerator can record the model's steps."""
        if self._waits:
            return
        if self._accelerator is not None and isinstance(cache := self._cache, PageCache):
            limits = self._accelerator.limits
            graphs = DecodeGraphs(self._compute_paged, limits, cache.block_size, cache.scratch_block, self._device)
            graphs.record(self._accelerator.recorder)
            self._graphs = graphs

    def put_adapter(self, slot: int, adapter: Adapter) -> None:
        """Store an adapter in a slot, for batches that refer to the slot. Raise AdapterRejected if unsupported."""
        self._adapters.put(slot, fused_sums(adapter, self._plan, self._tensors, self._dtype, self._device))

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
        if isinstance(cache, PageCache):
            return self._forward_paged(batch, cache, None)
        added = self._adapters.for_batch(batch, cache.device)
        inputs = Inputs.from_batch(batch, cache.block_size, cache.device)
        return self._compute(inputs, PlainAttention(cache, batch, inputs, self._weights.rotations), added)

    @property
    def continues_decodes(self) -> bool:
        """Whether steps are queued on a device, without waiting for it."""
        return isinstance(self._cache, PageCache) and not self._waits

    @torch.inference_mode()
    def forward_following(self, batch: Batch, token_ids: Tensor) -> Tensor:
        """Compute a batch of decodes as `forward` does, with the device's `token_ids`, int64 [sequences]."""
        cache = self._cache
        assert isinstance(cache, PageCache)  # noqa: S101  `continues_decodes` says so
        return self._forward_paged(batch, cache, token_ids)

    def _forward_paged(self, batch: Batch, cache: PageCache, token_ids: Tensor | None) -> Tensor:
        if self._graphs is not None and (logits := self._graphs.run(batch, token_ids)) is not None:
            return logits
        inputs = PagedInputs.from_batch(batch, cache.block_size, cache.device)
        if token_ids is not None:
            inputs = replace(inputs, token_ids=token_ids)
        return self._compute_paged(inputs, self._adapters.for_batch(batch, cache.device))

    @property
    def _waits(self) -> bool:
        """Whether a step reads from the device which experts were chosen."""
        return any(isinstance(part := each.feed_forward, Experts) and part.waits for each in self._weights.layers)

    def _compute_paged(self, inputs: PagedInputs, added: AddedSums = NOTHING_ADDED) -> Tensor:
        cache = self._cache
        assert self._accelerator is not None  # noqa: S101  a page cache implies an accelerator
        assert isinstance(cache, PageCache)  # noqa: S101
        attend = DeviceAttention(self._accelerator.kernels, cache, inputs, self._weights.rotations)
        return self._compute(inputs, attend, added)

    def _compute(self, inputs: Inputs, attend: AttentionStep, added: AddedSums) -> Tensor:
        """Compute the layers, and return float32 logits of the output rows."""
        weights, plan = self._weights, self._plan
        hidden = self._embed(inputs.token_ids)
        for index, layer in enumerate(weights.layers):
            normed = layer.attention_input(hidden)
            heads = layer.attention.project(normed, added, index)
            attended = attend(index, layer.attention, heads)
            hidden = layer.add_parts(hidden, normed, attended, added)
        chosen = hidden.index_select(0, inputs.output_rows)
        logits = weights.head(weights.norm(chosen)).float()
        if plan.logit_multiplier != 1:
            logits *= plan.logit_multiplier
        if plan.logit_soft_cap:
            logits = (logits / plan.logit_soft_cap).tanh_().mul_(plan.logit_soft_cap)
        return logits

    @property
    def _device(self) -> torch.device:
        return self._weights.norm.weight.device

    def _embed(self, token_ids: Tensor) -> Tensor:
        table = self._weights.token_embedding
        vectors = embedding(token_ids, table) if isinstance(table, Tensor) else table(token_ids)
        vectors = vectors.to(self._dtype)
        return vectors if self._plan.embedding_multiplier == 1 else vectors * self._plan.embedding_multiplier

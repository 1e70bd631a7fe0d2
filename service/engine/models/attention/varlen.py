"""Attention of a whole batch over pages, in one kernel call per layer for prefills, chunks and decodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from service.engine.models.attention.kv_cache import CacheShape
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.paged_inputs import PagedInputs
from service.engine.models.attention.scores import Scores


@dataclass(frozen=True, slots=True)
class VarlenKernel:
    """A kernel with the signature of `torch.nn.attention.varlen.varlen_attn`, and its limits."""

    attend: Callable[..., Tensor]
    dtypes: frozenset[torch.dtype]
    page_multiple: int  # the page size must be a multiple of it
    head_multiple: int  # the head size must be a multiple of it
    max_head_dim: int
    num_splits: int | None  # the number of splits of a context; None: the kernel chooses

    def unsupported_reason(self, shape: CacheShape, page_size: int) -> str | None:
        """Return why the kernel does not support a cache of this shape, or None if it does."""
        dims = {shape.head_dim, shape.value_dim}
        reasons = (
            (shape.dtype not in self.dtypes, f"it computes in {str(shape.dtype).removeprefix('torch.')}"),
            (len(dims) > 1, "its values and keys differ in size"),
            (
                max(dims) > self.max_head_dim or shape.head_dim % self.head_multiple,
                f"its heads have {shape.head_dim} numbers, not {self.head_multiple}n up to {self.max_head_dim}",
            ),
            (
                page_size % self.page_multiple,
                f"engine.block_size {page_size} is no multiple of {self.page_multiple}",
            ),
        )
        return next((reason for applies, reason in reasons if applies), None)


class VarlenPlan:
    """The attention of each row of one batch. `window` limits the tokens that a row sees, including itself."""

    def __init__(
        self, kernel: VarlenKernel, cache: PageCache, inputs: PagedInputs, scores: Scores, window: int | None = None
    ) -> None:
        """`scores` must not have a softcap, because the kernel has none."""
        self._kernel = kernel
        self._cache = cache
        self._inputs = inputs
        self._scale = scores.scale
        self._window = (-1 if window is None else window - 1, 0)

    def __call__(self, layer: int, queries: Tensor) -> Tensor:
        """Return the attention of `queries` [tokens, heads, head dim], in their shape."""
        keys, values = self._cache.pages(layer)
        inputs = self._inputs
        return self._kernel.attend(
            queries,
            keys,
            values,
            inputs.query_offsets,
            inputs.key_offsets,
            inputs.max_queries,
            inputs.max_context,
            scale=self._scale,
            window_size=self._window,
            enable_gqa=queries.shape[1] != keys.shape[2],
            seqused_k=inputs.context_lengths,
            block_table=inputs.block_tables,
            num_splits=self._kernel.num_splits,
        )

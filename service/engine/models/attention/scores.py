"""Scaled dot-product attention: with torch's kernel, or step by step if a model modifies the scores."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


@dataclass(frozen=True, slots=True)
class Scores:
    """The attention scores of a model. `scale` multiplies them; `softcap` bounds them smoothly, if set (Gemma 2)."""

    scale: float
    softcap: float | None = None

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """Return the attention of `query` [rows, heads, queries, dim] to `keys`, `values` [rows, kv heads, slots, dim].

        `mask` [queries, slots] is added. The heads of a kv head may be flattened into its queries, with the head index
        varying fastest. `sinks` [all heads] are the scores of a position that all queries see and that has no value
        (gpt-oss).
        """
        keys, values = keys.to(query.dtype), values.to(query.dtype)  # the cache may have a different type
        is_shared = keys.shape[1] != query.shape[1]
        if self.softcap is None and sinks is None:
            return scaled_dot_product_attention(
                query, keys, values, attn_mask=mask, is_causal=is_causal, scale=self.scale, enable_gqa=is_shared
            )
        if is_shared:
            keys, values = (each.repeat_interleave(query.shape[1] // keys.shape[1], 1) for each in (keys, values))
        scores = query @ keys.transpose(-1, -2) * self.scale
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        if is_causal:
            mask = torch.full(scores.shape[-2:], -torch.inf, dtype=scores.dtype, device=scores.device).triu_(1)
        if mask is not None:
            scores = scores + mask
        num_slots = scores.shape[-1]
        if sinks is not None:
            scores = torch.cat((scores, _in_rows(sinks, scores).to(scores.dtype)), -1)
        weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
        return weights[..., :num_slots] @ values


def _in_rows(sinks: Tensor, scores: Tensor) -> Tensor:
    """Return the sink of each query's head, [rows, heads, queries, 1]."""
    num_rows, num_heads, num_queries, _ = scores.shape
    heads_each = len(sinks) // num_heads
    of_heads = sinks.view(1, num_heads, 1, heads_each)
    return of_heads.expand(num_rows, -1, num_queries // heads_each, -1).reshape(num_rows, num_heads, num_queries, 1)

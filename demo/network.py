"""The network of the demo model for training: the Qwen3 architecture over packed rows, without a KV cache.

The parameters have the names of `Qwen3ForCausalLM`, so the `state_dict` of one can be loaded into the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """The sizes of a network; the fields are named as in `Qwen3Config`."""

    vocab_size: int = 2048
    hidden_size: int = 256
    num_hidden_layers: int = 5
    intermediate_size: int = 640
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    rope_theta: float = 1_000_000.0
    rms_norm_eps: float = 1e-6


class RMSNorm(nn.Module):
    """Root-mean-square normalisation over the last dimension, with a gain per channel."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


class Attention(nn.Module):
    """Grouped-query attention with normalised queries and keys, rotated by position."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        hidden, head = shape.hidden_size, shape.head_dim
        self.head_dim = head
        self.q_proj = nn.Linear(hidden, shape.num_attention_heads * head, bias=False)
        self.k_proj = nn.Linear(hidden, shape.num_key_value_heads * head, bias=False)
        self.v_proj = nn.Linear(hidden, shape.num_key_value_heads * head, bias=False)
        self.o_proj = nn.Linear(shape.num_attention_heads * head, hidden, bias=False)
        self.q_norm = RMSNorm(head, shape.rms_norm_eps)
        self.k_norm = RMSNorm(head, shape.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        rows, length, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(rows, length, -1, self.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(rows, length, -1, self.head_dim)).transpose(1, 2)
        v = self.v_proj(x).view(rows, length, -1, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        mixed: Tensor = self.o_proj(out.transpose(1, 2).reshape(rows, length, -1))
        return mixed


class FeedForward(nn.Module):
    """The gated SiLU block."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One pre-norm transformer layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.mlp = FeedForward(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Trunk(nn.Module):
    """Embedding, layers and the final norm, which transformers calls `model`."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)


class Network(nn.Module):
    """The whole model; `forward` returns logits only at the positions that have a loss."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Trunk(shape)
        self.lm_head = nn.Linear(shape.hidden_size, shape.vocab_size, bias=False)

    def forward(self, token_ids: Tensor, documents: Tensor, positions: Tensor) -> Tensor:
        """Return logits [num_positions, vocab] at `positions` (indices into the flattened rows).

        `token_ids` and `documents` are [rows, length]; a token attends to earlier tokens of its own document.
        Rows need no position ids: the rotation depends on distances alone.
        """
        cos, sin = angles(self.shape, token_ids.shape[1])
        mask = attention_mask(documents)
        x = self.model.embed_tokens(token_ids)
        for layer in self.model.layers:
            x = layer(x, cos, sin, mask)
        chosen = x.reshape(-1, x.shape[-1])[positions]
        logits: Tensor = self.lm_head(self.model.norm(chosen))
        return logits


def angles(shape: Shape, length: int) -> tuple[Tensor, Tensor]:
    """Return the cosine and sine of every position's rotation, each [length, head_dim]."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
    turns = torch.outer(torch.arange(length, dtype=torch.float32), shape.rope_theta**-exponents)
    turns = torch.cat((turns, turns), dim=-1)
    return turns.cos(), turns.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (i, i + head_dim / 2) of `x` [..., length, head_dim] by its position's angle."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def attention_mask(documents: Tensor) -> Tensor:
    """Return an additive mask [rows, 1, length, length] that lets a token attend to earlier ones of its document."""
    length = documents.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    seen = (documents[:, :, None] == documents[:, None, :]) & causal
    return torch.zeros(seen.shape).masked_fill_(~seen, float("-inf"))[:, None]

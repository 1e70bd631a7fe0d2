"""From the tensors of a Llama, Qwen2 or Qwen3 checkpoint to the lean decoder's layout.

One fused weight at a time is widened, reordered and laid out, so the peak is one such weight above the final size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from service.engine.models.checkpoint import Checkpoint
from service.engine.models.decoder import Decoder, DecoderWeights, Layer
from service.engine.models.decoder_shape import DecoderShape, decoder_shape
from service.engine.models.linear import Linear, lay_out
from service.engine.models.ops import interleave_pairs, rotation_table
from service.engine.models.rope import rope_frequencies

_DERIVED = ("rotary_emb.inv_freq",)  # some old checkpoints store what the configuration implies


def load_decoder(
    config: Any, checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, max_positions: int
) -> Decoder:
    """Build the decoder. Raises ModelLoadError for a missing, unexpected or wrongly shaped tensor."""
    shape = decoder_shape(config)
    reader = _Reader(checkpoint, shape, dtype, device)
    embedding = reader.stored("model.embed_tokens.weight", shape.vocab_size, shape.hidden_size)
    layers = tuple(reader.layer(f"model.layers.{index}.") for index in range(shape.num_layers))
    norm = reader.tensor("model.norm.weight", shape.hidden_size)
    if shape.is_tied:
        head = lay_out(embedding.to(dtype))
    else:
        head = reader.linear("", ("lm_head",), (shape.vocab_size,), shape.hidden_size, has_bias=False)
    checkpoint.require_all_taken(known=(*_DERIVED, "lm_head.weight") if shape.is_tied else _DERIVED)
    frequencies, scale = rope_frequencies(config, shape.head_dim)
    rotation = rotation_table(torch.from_numpy(frequencies), scale, max_positions).to(device)
    return Decoder(shape, DecoderWeights(embedding, layers, norm, head, rotation), dtype)


class _Reader:
    def __init__(self, checkpoint: Checkpoint, shape: DecoderShape, dtype: torch.dtype, device: torch.device) -> None:
        self._checkpoint = checkpoint
        self._shape = shape
        self._dtype = dtype
        self._device = device

    def stored(self, name: str, *shape: int) -> Tensor:
        """In the type of the file."""
        tensor = torch.from_numpy(self._checkpoint.take(name, shape))
        return (tensor.view(torch.bfloat16) if tensor.dtype is torch.uint16 else tensor).to(self._device)

    def tensor(self, name: str, *shape: int) -> Tensor:
        return self.stored(name, *shape).to(self._dtype)

    def linear(
        self, prefix: str, names: tuple[str, ...], outputs: tuple[int, ...], inputs: int, *, has_bias: bool
    ) -> Linear:
        """One product in place of several that share their input. Query and key rows are put in pairs."""
        weights, biases = [], []
        for name, num_outputs in zip(names, outputs, strict=True):
            weights.append(self._in_pairs(name, self.tensor(f"{prefix}{name}.weight", num_outputs, inputs)))
            if has_bias:
                biases.append(self._in_pairs(name, self.tensor(f"{prefix}{name}.bias", num_outputs)))
        return lay_out(torch.cat(weights), torch.cat(biases) if biases else None)

    def _in_pairs(self, name: str, tensor: Tensor) -> Tensor:
        return interleave_pairs(tensor, self._shape.head_dim) if name in {"q_proj", "k_proj"} else tensor

    def layer(self, prefix: str) -> Layer:
        shape = self._shape
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
        hidden, inner = shape.hidden_size, shape.intermediate_size
        query, key = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        return Layer(
            attention_norm=self.tensor(f"{prefix}input_layernorm.weight", hidden),
            qkv=self.linear(
                attention, ("q_proj", "k_proj", "v_proj"), (query, key, key), hidden, has_bias=shape.has_qkv_bias
            ),
            head_norm=self._head_norm(attention) if shape.has_head_norm else None,
            attention_output=self.linear(attention, ("o_proj",), (hidden,), query, has_bias=shape.has_output_bias),
            mlp_norm=self.tensor(f"{prefix}post_attention_layernorm.weight", hidden),
            gate_up=self.linear(mlp, ("gate_proj", "up_proj"), (inner, inner), hidden, has_bias=shape.has_mlp_bias),
            down=self.linear(mlp, ("down_proj",), (hidden,), inner, has_bias=shape.has_mlp_bias),
        )

    def _head_norm(self, prefix: str) -> Tensor:
        shape = self._shape
        weights = [
            interleave_pairs(self.tensor(f"{prefix}{name}.weight", shape.head_dim), shape.head_dim).expand(count, -1)
            for name, count in (("q_norm", shape.num_heads), ("k_norm", shape.num_kv_heads))
        ]
        return torch.cat(weights)

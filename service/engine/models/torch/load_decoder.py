"""Lay out the tensors of a Llama, Qwen2 or Qwen3 checkpoint for the decoder.

One fused weight at a time is widened, reordered and laid out, so the peak is one such weight above the final size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from service.engine.models.attention.accelerator import Accelerator
from service.engine.models.checkpoint.checkpoint import Checkpoint, TensorSlice
from service.engine.models.checkpoint.rope import rope_frequencies
from service.engine.models.torch.decoder import Decoder, DecoderWeights, Layer
from service.engine.models.torch.decoder_shape import DecoderShape, decoder_shape
from service.engine.models.torch.linear import Linear, lay_out
from service.engine.models.torch.ops import as_tensor, interleave_pairs, rotation_table
from service.engine.models.torch.share import WHOLE, Share
from service.engine.models.torch.shared_layers import GatheredHead, SharedEmbedding, SummedLinear

_DERIVED = ("rotary_emb.inv_freq",)  # some old checkpoints store what the configuration implies


def load_decoder(
    config: Any,
    checkpoint: Checkpoint,
    dtype: torch.dtype,
    device: torch.device,
    max_positions: int,
    *,
    share: Share = WHOLE,
    accelerator: Accelerator | None = None,
    cache_dtype: torch.dtype | None = None,
) -> Decoder:
    """Build the decoder, or a rank's share of it. Raises ModelLoadError for a missing, unexpected or misshapen tensor.

    The forward of a share needs a process group of all ranks. `cache_dtype` None is `dtype`.
    """
    shape = decoder_shape(config)
    reader = _Reader(checkpoint, shape, share, dtype, device)
    vocabulary = share.vocabulary(shape.vocab_size)
    embedding = reader.stored("model.embed_tokens.weight", shape.vocab_size, shape.hidden_size, part=vocabulary)
    layers = tuple(reader.layer(f"model.layers.{index}.") for index in range(shape.num_layers))
    norm = reader.tensor("model.norm.weight", shape.hidden_size)
    if shape.is_tied:
        head = embedding.to(dtype)
    else:
        head = reader.tensor("lm_head.weight", shape.vocab_size, shape.hidden_size, part=vocabulary)
    checkpoint.require_all_taken(known=(*_DERIVED, "lm_head.weight") if shape.is_tied else _DERIVED)
    frequencies, scale = rope_frequencies(config, shape.head_dim)
    weights = DecoderWeights(
        token_embedding=embedding if share == WHOLE else SharedEmbedding(embedding, vocabulary.start),
        layers=layers,
        norm=norm,
        head=lay_out(head) if share == WHOLE else GatheredHead(head, share, shape.vocab_size),
        rotation=rotation_table(torch.from_numpy(frequencies), scale, max_positions).to(device),
    )
    return Decoder(share.shape_of(shape), weights, dtype, accelerator, cache_dtype)


class _Reader:
    def __init__(
        self, checkpoint: Checkpoint, shape: DecoderShape, share: Share, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._checkpoint = checkpoint
        self._shape = shape  # of the whole model
        self._share = share
        self._dtype = dtype
        self._device = device

    def stored(self, name: str, *shape: int, part: TensorSlice | None = None) -> Tensor:
        """In the type of the file. `shape` is that of the whole tensor."""
        return as_tensor(self._checkpoint.take(name, shape, part)).to(self._device)

    def tensor(self, name: str, *shape: int, part: TensorSlice | None = None) -> Tensor:
        return self.stored(name, *shape, part=part).to(self._dtype)

    def layer(self, prefix: str) -> Layer:
        shape, share = self._shape, self._share
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
        hidden, inner = shape.hidden_size, shape.intermediate_size
        query, key = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        heads = {
            "q_proj": (query, share.outputs(query)),
            "k_proj": (key, share.kv_rows(shape)),
            "v_proj": (key, share.kv_rows(shape)),
        }
        units = dict.fromkeys(("gate_proj", "up_proj"), (inner, share.outputs(inner)))
        return Layer(
            attention_norm=self.tensor(f"{prefix}input_layernorm.weight", hidden),
            qkv=self._joined(attention, heads, has_bias=shape.has_qkv_bias),
            head_norm=self._head_norm(attention) if shape.has_head_norm else None,
            attention_output=self._summed(f"{attention}o_proj", query, has_bias=shape.has_output_bias),
            mlp_norm=self.tensor(f"{prefix}post_attention_layernorm.weight", hidden),
            gate_up=self._joined(mlp, units, has_bias=shape.has_mlp_bias),
            down=self._summed(f"{mlp}down_proj", inner, has_bias=shape.has_mlp_bias),
        )

    def _joined(self, prefix: str, parts: dict[str, tuple[int, TensorSlice]], *, has_bias: bool) -> Linear:
        """One product in place of several that share their input: of each, all outputs and those of this rank.

        Query and key rows are put in pairs.
        """
        weights, biases = [], []
        for name, (num_outputs, part) in parts.items():
            weight = self.tensor(f"{prefix}{name}.weight", num_outputs, self._shape.hidden_size, part=part)
            weights.append(self._in_pairs(name, weight))
            if has_bias:
                biases.append(self._in_pairs(name, self.tensor(f"{prefix}{name}.bias", num_outputs, part=part)))
        return lay_out(torch.cat(weights), torch.cat(biases) if biases else None)

    def _summed(self, name: str, num_inputs: int, *, has_bias: bool) -> Linear:
        """The product back to the hidden size, of which a rank has some inputs, and only the first one the bias."""
        hidden = self._shape.hidden_size
        part = None if self._share == WHOLE else self._share.inputs(num_inputs)
        weight = self.tensor(f"{name}.weight", hidden, num_inputs, part=part)
        bias = self.tensor(f"{name}.bias", hidden) if has_bias else None
        if self._share == WHOLE:
            return lay_out(weight, bias)
        return SummedLinear(lay_out(weight, bias if self._share.rank == 0 else None))

    def _in_pairs(self, name: str, tensor: Tensor) -> Tensor:
        return interleave_pairs(tensor, self._shape.head_dim) if name in {"q_proj", "k_proj"} else tensor

    def _head_norm(self, prefix: str) -> Tensor:
        own = self._share.shape_of(self._shape)
        weights = [
            interleave_pairs(self.tensor(f"{prefix}{name}.weight", own.head_dim), own.head_dim).expand(count, -1)
            for name, count in (("q_norm", own.num_heads), ("k_norm", own.num_kv_heads))
        ]
        return torch.cat(weights)

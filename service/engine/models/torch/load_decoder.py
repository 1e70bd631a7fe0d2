"""Load the tensors of a Llama, Qwen2 or Qwen3 checkpoint into the fused decoder.

One fused weight at a time is converted, reordered and laid out, so the peak memory is one such weight above the final
size.
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
from service.engine.models.torch.parallel_layers import ParallelLMHead, RowParallelLinear, VocabParallelEmbedding
from service.engine.models.torch.shard import WHOLE, Shard

_DERIVED = ("rotary_emb.inv_freq",)  # some old checkpoints store tensors that the configuration implies


def load_decoder(
    config: Any,
    checkpoint: Checkpoint,
    dtype: torch.dtype,
    device: torch.device,
    max_positions: int,
    *,
    shard: Shard = WHOLE,
    accelerator: Accelerator | None = None,
    cache_dtype: torch.dtype | None = None,
) -> Decoder:
    """Load the decoder, or a rank's shard. Raise ModelLoadError for a missing, unexpected or misshapen tensor.

    The forward pass of a shard needs a process group of all ranks. `cache_dtype` None is `dtype`.
    """
    shape = decoder_shape(config)
    reader = _Reader(checkpoint, shape, shard, dtype, device)
    vocabulary = shard.vocabulary(shape.vocab_size)
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
        token_embedding=embedding if shard == WHOLE else VocabParallelEmbedding(embedding, vocabulary.start),
        layers=layers,
        norm=norm,
        head=lay_out(head) if shard == WHOLE else ParallelLMHead(head, shard, shape.vocab_size),
        rotation=rotation_table(torch.from_numpy(frequencies), scale, max_positions).to(device),
    )
    return Decoder(shard.shape_of(shape), weights, dtype, accelerator, cache_dtype)


class _Reader:
    def __init__(
        self, checkpoint: Checkpoint, shape: DecoderShape, shard: Shard, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._checkpoint = checkpoint
        self._shape = shape  # of the whole model
        self._shard = shard
        self._dtype = dtype
        self._device = device

    def stored(self, name: str, *shape: int, part: TensorSlice | None = None) -> Tensor:
        """Return a tensor in its stored type. `shape` is the shape of the whole tensor."""
        return as_tensor(self._checkpoint.take(name, shape, part)).to(self._device)

    def tensor(self, name: str, *shape: int, part: TensorSlice | None = None) -> Tensor:
        return self.stored(name, *shape, part=part).to(self._dtype)

    def layer(self, prefix: str) -> Layer:
        shape, shard = self._shape, self._shard
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
        hidden, inner = shape.hidden_size, shape.intermediate_size
        query, key = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        heads = {
            "q_proj": (query, shard.outputs(query)),
            "k_proj": (key, shard.kv_rows(shape)),
            "v_proj": (key, shard.kv_rows(shape)),
        }
        units = dict.fromkeys(("gate_proj", "up_proj"), (inner, shard.outputs(inner)))
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
        """Return one fused Linear of projections that share their input, with the outputs of this rank.

        `parts` has each projection's number of outputs and the slice of this rank. Query and key rows are interleaved.
        """
        weights, biases = [], []
        for name, (num_outputs, part) in parts.items():
            weight = self.tensor(f"{prefix}{name}.weight", num_outputs, self._shape.hidden_size, part=part)
            weights.append(self._in_pairs(name, weight))
            if has_bias:
                biases.append(self._in_pairs(name, self.tensor(f"{prefix}{name}.bias", num_outputs, part=part)))
        return lay_out(torch.cat(weights), torch.cat(biases) if biases else None)

    def _summed(self, name: str, num_inputs: int, *, has_bias: bool) -> Linear:
        """Return the projection to the hidden size. A rank has some of its inputs, and only rank 0 has the bias."""
        hidden = self._shape.hidden_size
        part = None if self._shard == WHOLE else self._shard.inputs(num_inputs)
        weight = self.tensor(f"{name}.weight", hidden, num_inputs, part=part)
        bias = self.tensor(f"{name}.bias", hidden) if has_bias else None
        if self._shard == WHOLE:
            return lay_out(weight, bias)
        return RowParallelLinear(lay_out(weight, bias if self._shard.rank == 0 else None))

    def _in_pairs(self, name: str, tensor: Tensor) -> Tensor:
        return interleave_pairs(tensor, self._shape.head_dim) if name in {"q_proj", "k_proj"} else tensor

    def _head_norm(self, prefix: str) -> Tensor:
        """Return the norm's weights of queries and keys, expanded to this shard's heads, queries first."""
        own = self._shard.shape_of(self._shape)
        weights = [
            interleave_pairs(self.tensor(f"{prefix}{name}.weight", own.head_dim), own.head_dim).expand(count, -1)
            for name, count in (("q_norm", own.num_heads), ("k_norm", own.num_kv_heads))
        ]
        return torch.cat(weights)

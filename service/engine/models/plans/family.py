"""A family of models: the types of config.json that it serves, its plan, and the names of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from service.engine.models.checkpoint.rope import rope_frequencies
from service.engine.models.plans.plan import (
    Activation,
    AttentionPlan,
    DecoderPlan,
    DensePlan,
    LayerPlan,
    PlanUnsupportedError,
    RotaryPlan,
)
from service.engine.models.plans.sources import Tensors

_ROPES: Final = ("default", "linear", "llama3", "yarn", "longrope", "proportional")
_ACTIVATIONS: Final[dict[str, Activation]] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "squared_relu",
    "xielu": "xielu",
}
LLAMA_TENSORS: Final = Tensors(modules={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Models whose configurations and checkpoints are alike. `plan` raises PlanUnsupportedError."""

    types: tuple[str, ...]
    plan: Callable[[Any], DecoderPlan]
    tensors: Tensors = LLAMA_TENSORS
    alternatives: tuple[Tensors, ...] = ()  # of checkpoints that name experts, or the embedding, differently

    def tensors_in(self, has_tensor: Callable[[str], bool], plan: DecoderPlan) -> Tensors:
        """Return the names that a checkpoint uses; `has_tensor` returns whether it has a tensor of a name."""
        for tensors in self.alternatives:
            if tensors.sign or tensors.experts is None:
                is_used = has_tensor(tensors.sign or f"{tensors.modules['model.embed_tokens'].module}.weight")
            else:
                is_used = tensors.experts.are_in(has_tensor, plan, tensors.layers)
            if is_used:
                return tensors
        return self.tensors


def require(config: Any, name: str, *allowed: Any) -> None:
    """Raise PlanUnsupportedError unless the field has one of the allowed values; the first stands for a missing one."""
    value = getattr(config, name, allowed[0])
    if value not in allowed:
        raise PlanUnsupportedError(f"{name} is {value!r}")


def head_dim_of(config: Any) -> int:
    """Return the width of a head."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def activation_of(config: Any, name: str = "hidden_act") -> Activation:
    """Return the activation of the feed-forward parts."""
    value = getattr(config, name, "silu")
    if value not in _ACTIVATIONS:
        raise PlanUnsupportedError(f"{name} is {value!r}")
    return _ACTIVATIONS[value]


def rotary_of(
    config: Any, rope: Mapping[str, Any] | None = None, head_dim: int | None = None, *, is_partial: bool = False
) -> RotaryPlan:
    """Return the table of rotary positions; `rope` are its parameters, by default those of the whole model.

    With `is_partial` the model rotates only a part of a head if its configuration says so.
    """
    given = rope if rope is not None else config.rope_parameters
    kind, share = given.get("rope_type", "default"), given.get("partial_rotary_factor", 1.0)
    if kind not in _ROPES:
        raise PlanUnsupportedError(f"rope_parameters.rope_type is {kind!r}")
    if share != 1 and not is_partial:
        raise PlanUnsupportedError(f"rope_parameters.partial_rotary_factor is {share!r}")
    frequencies, factor = rope_frequencies(config, head_dim or head_dim_of(config), given)
    return RotaryPlan(inverse_frequencies=tuple(frequencies.tolist()), factor=factor)


def kinds_of(config: Any) -> list[str]:
    """Return the kind of each layer's attention, full_attention or sliding_attention."""
    usual = "sliding_attention" if getattr(config, "sliding_window", None) else "full_attention"
    kinds = list(getattr(config, "layer_types", None) or [usual] * config.num_hidden_layers)
    for kind in kinds:
        if kind not in {"full_attention", "sliding_attention"}:
            raise PlanUnsupportedError(f"layer_types has {kind!r}")
    return kinds


def windows_of(config: Any) -> list[int]:
    """Return the attention window of each layer in tokens, including the token itself; 0 for no window."""
    window = getattr(config, "sliding_window", None) or 0
    return [window if kind == "sliding_attention" else 0 for kind in kinds_of(config)]


def attention_of(config: Any, **options: Any) -> AttentionPlan:
    """Return a layer's attention from the usual fields, and `options` that replace or complement them."""
    head_dim = head_dim_of(config)
    usual: dict[str, Any] = {
        "num_heads": config.num_attention_heads,
        "num_kv_heads": getattr(config, "num_key_value_heads", None) or config.num_attention_heads,
        "head_dim": head_dim,
        "scale": float(np.float32(1) / np.sqrt(np.float32(head_dim))),
    }
    return AttentionPlan(**usual | options)


def dense_of(config: Any, **options: Any) -> DensePlan:
    """Return a feed-forward part from the usual fields, and `options` that replace or complement them."""
    usual: dict[str, Any] = {"has_bias": bool(getattr(config, "mlp_bias", False))}
    if "width" not in options:
        usual["width"] = config.intermediate_size
    if "activation" not in options:
        usual["activation"] = activation_of(config)
    return DensePlan(**usual | options)


def decoder_of(config: Any, layers: list[LayerPlan], **options: Any) -> DecoderPlan:
    """Return a decoder from the usual fields, and `options` that replace or complement them."""
    usual: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "is_tied": bool(config.tie_word_embeddings),
        "layers": tuple(layers),
    }
    if "rotary" not in options:
        usual["rotary"] = (rotary_of(config),)
    if "norm_epsilon" not in options:
        usual["norm_epsilon"] = config.rms_norm_eps
    return DecoderPlan(**usual | options)

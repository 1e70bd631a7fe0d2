"""MiniMax-Text-01: lightning attention in most layers; the residual is the normalized input of each part."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from service.engine.models.plans.expert_sources import FUSED
from service.engine.models.plans.families.experts.layers import experts_of
from service.engine.models.plans.families.experts.mixtral import SEPARATE
from service.engine.models.plans.family import Family, attention_of, decoder_of, head_dim_of, require
from service.engine.models.plans.plan import DecoderPlan, LayerPlan, PlanUnsupportedError, RecurrentPlan
from service.engine.models.plans.sources import RowsOf, Source, Tensors

_NORM_EPSILON: Final = 1e-6  # of the norm of a layer's results, whatever the configuration says
_FACTORS: Final = {"full_attention": "full_attn", "linear_attention": "linear_attn"}


def _multipliers(config: Any, part: str) -> tuple[float, float]:
    """Return the numbers that multiply the residual and the results of a kind of parts."""
    kept, added = f"{part}_alpha_factor", f"{part}_beta_factor"
    if not getattr(config, kept) > 0:
        raise PlanUnsupportedError(f"{kept} is {getattr(config, kept)!r}")
    return float(getattr(config, kept)), float(getattr(config, added))


def _lightning(config: Any, index: int, multiplier: float) -> RecurrentPlan:
    heads, head_dim = config.num_attention_heads, head_dim_of(config)
    return RecurrentPlan(
        kind="lightning",
        num_heads=heads,
        num_key_heads=heads,
        key_dim=head_dim,
        value_dim=head_dim,
        taps=1,
        gate_norm="norm_first",
        norm_size=heads * head_dim,
        norm_epsilon=_NORM_EPSILON,
        slope=1 - index / (config.num_hidden_layers - 1 + 1e-5) + 1e-5,
        output_multiplier=multiplier,
    )


def _plan(config: Any) -> DecoderPlan:
    require(config, "hidden_act", "silu")
    mlp_kept, mlp_added = _multipliers(config, "mlp")
    experts = experts_of(config, is_renormalized=True, scale=mlp_added)
    layers = []
    for index, kind in enumerate(config.layer_types):
        if kind not in _FACTORS:
            raise PlanUnsupportedError(f"layer_types has {kind!r}")
        kept, added = _multipliers(config, _FACTORS[kind])
        if kind == "full_attention":
            window = getattr(config, "sliding_window", None) or 0
            mixer: dict[str, Any] = {"attention": attention_of(config, window=window, output_multiplier=added)}
        else:
            mixer = {"recurrent": _lightning(config, index, added)}
        layers.append(
            LayerPlan(
                feed_forward=experts,
                attention_residual_multiplier=kept,
                mlp_residual_multiplier=mlp_kept,
                **mixer,
            )
        )
    return decoder_of(config, layers)


def _stacked_rows() -> RowsOf:
    """Return the queries' rows, then the keys' and the values', of a module that stacks the three of each head."""

    def rows(_: DecoderPlan, layer: LayerPlan) -> NDArray[np.intp]:
        mixer = layer.mixer
        whole = np.arange(3 * mixer.inner_width).reshape(mixer.num_heads, 3, mixer.value_dim)
        return whole.transpose(1, 0, 2).reshape(-1)

    return rows


_MODULES: Final = {
    "recurrent.qkv_proj": Source("self_attn.qkv_proj", rows=_stacked_rows()),
    "recurrent.gate_proj": Source("self_attn.output_gate"),
    "recurrent.out_proj": Source("self_attn.out_proj"),
    "recurrent.norm": Source("self_attn.norm"),
    "recurrent.convolution": Source("", constant=1.0),  # of one token, so that it is SiLU alone
}
# They follow from the configuration.
_UNUSED: Final = tuple(f"self_attn.{name}" for name in ("slope_rate", "query_decay", "key_decay", "diagonal_decay"))

FAMILIES: Final = (
    Family(
        types=("minimax",),
        plan=_plan,
        tensors=Tensors(
            modules={**_MODULES, "mlp.gate": Source("block_sparse_moe.gate")}, experts=SEPARATE, unused=_UNUSED
        ),
        alternatives=(Tensors(modules=_MODULES, experts=FUSED, unused=_UNUSED),),
    ),
)

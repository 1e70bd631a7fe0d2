"""Plans of feed-forward parts of experts, from the fields that configurations usually have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from service.engine.models.plans.family import activation_of, dense_of
from service.engine.models.plans.plan import AttentionPlan, ExpertsPlan, LatentPlan, LayerPlan
from service.engine.models.plans.sources import Source

# The modules of a shared expert whose name is plural in checkpoints.
SHARED_EXPERTS: Final = {
    f"mlp.shared_expert.{part}_proj": Source(f"mlp.shared_experts.{part}_proj") for part in ("gate", "up", "down")
}


def experts_of(config: Any, **options: Any) -> ExpertsPlan:
    """Return a part of experts from the usual fields, and `options` that replace or complement them."""
    usual: dict[str, Any] = {
        "num_experts": getattr(config, "num_local_experts", None) or config.num_experts,
        "num_chosen": config.num_experts_per_tok,
        "activation": activation_of(config),
    }
    if "width" not in options:
        usual["width"] = config.intermediate_size
    return ExpertsPlan(**usual | options)


def sigmoid_experts_of(config: Any, **options: Any) -> ExpertsPlan:
    """Return a part of experts like DeepSeek-V3's: sigmoid scores, a correction of the choice, and groups."""
    usual: dict[str, Any] = {
        "width": config.moe_intermediate_size,
        "scores": "sigmoid",
        "has_correction": True,
        "num_groups": config.n_group,
        "num_chosen_groups": config.topk_group,
        "adds_two": config.topk_group < config.n_group,
        "is_renormalized": bool(config.norm_topk_prob),
        "sum_addend": 1e-20,
        "scale": float(config.routed_scaling_factor),
    }
    return experts_of(config, **usual | options)


def layers_of(
    config: Any,
    attention: Sequence[AttentionPlan | LatentPlan],
    experts: ExpertsPlan,
    is_sparse: Sequence[bool],
    **options: Any,
) -> list[LayerPlan]:
    """Return the layers, with experts where `is_sparse` and otherwise a dense feed-forward part."""
    dense = dense_of(config)
    return [
        LayerPlan(attention=each, feed_forward=experts if sparse else dense, **options)
        for each, sparse in zip(attention, is_sparse, strict=True)
    ]


def sparse_after(config: Any) -> list[bool]:
    """Return which layers have experts: all but the first `first_k_dense_replace`."""
    return [i >= config.first_k_dense_replace for i in range(config.num_hidden_layers)]


def sparse_by_step(config: Any) -> list[bool]:
    """Return which layers have experts: every `decoder_sparse_step`-th one, except the `mlp_only_layers`."""
    step, dense = config.decoder_sparse_step, config.mlp_only_layers
    return [(i + 1) % step == 0 and i not in dense for i in range(config.num_hidden_layers)]


def sparse_everywhere(config: Any) -> list[bool]:
    """Return that all layers have experts."""
    return [True] * int(config.num_hidden_layers)

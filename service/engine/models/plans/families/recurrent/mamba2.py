"""Models with Mamba-2 layers: Mamba-2, Bamba, Nemotron-H, and Granite's hybrid kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from service.engine.models.plans.expert_sources import ExpertTensors
from service.engine.models.plans.families.experts.granitemoe import LOADED_EXPERTS, SHARED, STORED_EXPERTS
from service.engine.models.plans.families.experts.layers import experts_of, sigmoid_experts_of
from service.engine.models.plans.families.granite import granite_attention, granite_multipliers
from service.engine.models.plans.family import (
    Family,
    activation_of,
    attention_of,
    decoder_of,
    dense_of,
    require,
    rotary_of,
)
from service.engine.models.plans.plan import (
    LARGEST,
    DecoderPlan,
    LayerPlan,
    PlanUnsupportedError,
    RecurrentPlan,
)
from service.engine.models.plans.rows import first_rows, second_rows
from service.engine.models.plans.sources import Source, Tensors


def mamba2_of(config: Any, **options: Any) -> RecurrentPlan:
    """Return a Mamba-2 mixer from the fields of most hybrid models, and `options` that replace or complement them."""
    usual: dict[str, Any] = {"kind": "mamba2", "gate_norm": "gate_first"}
    if "num_heads" not in options:
        usual |= {
            "num_heads": config.mamba_n_heads,
            "num_key_heads": config.mamba_n_groups,
            "key_dim": config.mamba_d_state,
            "value_dim": config.mamba_d_head,
            "taps": config.mamba_d_conv,
            "has_convolution_bias": bool(config.mamba_conv_bias),
            "has_input_bias": bool(config.mamba_proj_bias),
            "has_output_bias": bool(config.mamba_proj_bias),
        }
    given = usual | options
    given.setdefault("norm_size", given["num_heads"] * given["value_dim"] // given["num_key_heads"])
    if "least_step" not in given:
        least, most = config.time_step_limit or (0.0, LARGEST)
        given |= {"least_step": float(least), "most_step": min(float(most), LARGEST)}
    return RecurrentPlan(**given)


def kinds_in(config: Any, known: tuple[str, ...]) -> list[str]:
    """Return the kinds of a configuration's layers, in the names of current versions of transformers."""
    names = {"mamba": "linear_attention", "attention": "full_attention"}
    kinds = [names.get(kind, kind) for kind in config.layer_types]
    for kind in kinds:
        if kind not in known:
            raise PlanUnsupportedError(f"layer_types has {kind!r}")
    return kinds


def _mamba2(config: Any) -> DecoderPlan:
    require(config, "hidden_act", "silu")
    mixer = mamba2_of(
        config,
        num_heads=config.num_heads,
        num_key_heads=config.n_groups,
        key_dim=config.state_size,
        value_dim=config.head_dim,
        taps=config.conv_kernel,
        has_convolution_bias=bool(config.use_conv_bias),
        has_input_bias=bool(config.use_bias),
        has_output_bias=bool(config.use_bias),
    )
    layer = LayerPlan(recurrent=mixer, has_mlp_norm=False)
    return decoder_of(config, [layer] * config.num_hidden_layers, rotary=(), norm_epsilon=config.layer_norm_epsilon)


def _hybrid(config: Any) -> list[dict[str, Any]]:
    """Return the mixer of each layer of a model with attention in some layers."""
    require(config, "hidden_act", "silu")
    has_bias = bool(config.attention_bias)
    attention = attention_of(config, has_qkv_bias=has_bias, has_output_bias=has_bias)
    mixers: dict[str, Any] = {
        "linear_attention": {"recurrent": mamba2_of(config)},
        "full_attention": {"attention": attention},
    }
    return [mixers[kind] for kind in kinds_in(config, tuple(mixers))]


def _bamba(config: Any) -> DecoderPlan:
    layers = [LayerPlan(feed_forward=dense_of(config), **mixer) for mixer in _hybrid(config)]
    return decoder_of(config, layers, rotary=(rotary_of(config, is_partial=True),))


def _granite(config: Any) -> DecoderPlan:
    require(config, "position_embedding_type", None, "rope", "nope")
    has_rotary = config.position_embedding_type == "rope"
    attention = attention_of(config, rotary=0 if has_rotary else -1, **granite_attention(config))
    mixers: dict[str, Any] = {
        "linear_attention": {"recurrent": mamba2_of(config)},
        "full_attention": {"attention": attention},
    }
    if config.num_local_experts:
        feed_forward: Any = experts_of(config, scores="chosen_softmax", shared_width=config.shared_intermediate_size)
    else:
        feed_forward = dense_of(config, width=config.shared_intermediate_size)
    layers = [LayerPlan(feed_forward=feed_forward, **mixers[kind]) for kind in kinds_in(config, tuple(mixers))]
    rotary = (rotary_of(config),) if has_rotary else ()
    return decoder_of(config, layers, rotary=rotary, **granite_multipliers(config))


def _nemotron(config: Any) -> DecoderPlan:
    require(config, "mamba_hidden_act", "silu")
    mixer = mamba2_of(
        config,
        num_heads=config.mamba_num_heads,
        num_key_heads=config.n_groups,
        key_dim=config.ssm_state_size,
        value_dim=config.mamba_head_dim,
        least_step=float(config.time_step_min),  # transformers ignores time_step_limit
        taps=config.conv_kernel,
        has_convolution_bias=bool(config.use_conv_bias),
        has_input_bias=bool(config.use_bias),
        has_output_bias=bool(config.use_bias),
    )
    dense = dense_of(config, is_gated=False, activation=activation_of(config, "mlp_hidden_act"))
    layers = {
        "linear_attention": LayerPlan(recurrent=mixer, has_mlp_norm=False),
        "full_attention": LayerPlan(attention=attention_of(config, rotary=-1), has_mlp_norm=False),
        "mlp": LayerPlan(feed_forward=dense, has_attention_norm=False),
    }
    kinds = kinds_in(config, (*layers, "moe"))
    if "moe" in kinds:
        require(config, "moe_latent_size", None)
        require(config, "mlp_bias", False)
        experts = sigmoid_experts_of(
            config,
            is_gated=False,
            activation=dense.activation,
            num_experts=config.n_routed_experts,
            shared_width=config.moe_shared_expert_intermediate_size,
        )
        layers["moe"] = LayerPlan(feed_forward=experts, has_attention_norm=False)
    return decoder_of(config, [layers[kind] for kind in kinds], rotary=(), norm_epsilon=config.layer_norm_epsilon)


def recurrent_sources(module: str) -> dict[str, Source]:
    """Return the sources of a Mamba-2 mixer that is the module `module` of its layer."""
    names = {"in_proj": "in_proj", "out_proj": "out_proj", "decay": "A_log", "step_bias": "dt_bias", "skip": "D"}
    sources = {f"recurrent.{name}": Source(f"{module}.{own}") for name, own in names.items()}
    return sources | {
        "recurrent.norm": Source(f"{module}.norm"),
        "recurrent.convolution": Source(f"{module}.conv1d", is_convolution=True),
    }


_MAMBA2: Final = recurrent_sources("mixer") | {
    "model.embed_tokens": Source("backbone.embeddings"),
    "model.norm": Source("backbone.norm_f"),
    "input_layernorm": Source("norm"),
}
_STORED_NEMOTRON: Final = _MAMBA2 | {
    "post_attention_layernorm": Source("norm"),
    **{f"self_attn.{name}_proj": Source(f"mixer.{name}_proj") for name in "qkvo"},
    "mlp.up_proj": Source("mixer.up_proj"),
    "mlp.down_proj": Source("mixer.down_proj"),
    "mlp.gate": Source("mixer.gate"),
    "mlp.gate.e_score_correction_bias": Source("mixer.gate.e_score_correction_bias"),
    **{f"mlp.shared_expert.{name}_proj": Source(f"mixer.shared_experts.{name}_proj") for name in ("up", "down")},
}
_LOADED_NEMOTRON: Final = _STORED_NEMOTRON | {
    "model.embed_tokens": Source("model.embeddings"),
    "model.norm": Source("model.norm_f"),
}
FEED_FORWARD: Final = {
    "model.norm": Source("model.final_layernorm"),
    "post_attention_layernorm": Source("pre_ff_layernorm"),
    **{f"mlp.{name}_proj": Source(f"feed_forward.{name}_proj") for name in ("gate", "up", "down")},
}
_GRANITE: Final = recurrent_sources("mamba") | {
    **SHARED,
    "mlp.gate_proj": Source("shared_mlp.input_linear", rows=first_rows),
    "mlp.up_proj": Source("shared_mlp.input_linear", rows=second_rows),
    "mlp.down_proj": Source("shared_mlp.output_linear"),
}

_GRANITE_SEPARATE: Final = Tensors(  # of GGUF files
    modules=recurrent_sources("mamba")
    | {
        "mlp.gate": Source("block_sparse_moe.router.layer"),
        "mlp.shared_expert.down_proj": SHARED["mlp.shared_expert.down_proj"],
        "mlp.gate_proj": Source("mlp.shared_expert.gate_proj"),
        "mlp.up_proj": Source("mlp.shared_expert.up_proj"),
        "mlp.down_proj": Source("shared_mlp.output_linear"),
    },
    experts=ExpertTensors(),
    sign="model.layers.0.mlp.shared_expert.gate_proj.weight",
)
_STORED: Final = Tensors(modules=_STORED_NEMOTRON, layers="backbone.layers.{}.", predictors=("mtp.",))
_EXPERT: Final = "mixer.experts.{}."

FAMILIES: Final = (
    Family(types=("mamba2",), plan=_mamba2, tensors=Tensors(modules=_MAMBA2, layers="backbone.layers.{}.")),
    Family(types=("bamba",), plan=_bamba, tensors=Tensors(modules=recurrent_sources("mamba") | FEED_FORWARD)),
    Family(
        types=("granitemoehybrid",),
        plan=_granite,
        tensors=Tensors(
            modules={**_GRANITE, "mlp.gate": Source("block_sparse_moe.router.layer")}, experts=STORED_EXPERTS
        ),
        alternatives=(
            Tensors(modules={**_GRANITE, "mlp.gate": Source("block_sparse_moe.router")}, experts=LOADED_EXPERTS),
            _GRANITE_SEPARATE,
        ),
    ),
    Family(
        types=("nemotron_h",),
        plan=_nemotron,
        tensors=Tensors(
            modules=_LOADED_NEMOTRON,
            experts=ExpertTensors(gate="", up="mixer.experts.up_proj", down="mixer.experts.down_proj", weight=""),
            predictors=("mtp.",),
        ),
        alternatives=(
            replace(_STORED, experts=ExpertTensors(gate="", up=_EXPERT + "up_proj", down=_EXPERT + "down_proj")),
            _STORED,
        ),
    ),
)

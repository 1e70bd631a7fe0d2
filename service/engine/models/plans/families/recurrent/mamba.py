"""Models with Mamba-1 layers: Mamba, Falcon-Mamba, Jamba."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import ExpertTensors
from service.engine.models.plans.families.experts.layers import experts_of
from service.engine.models.plans.families.recurrent.mamba2 import FEED_FORWARD
from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, require
from service.engine.models.plans.plan import DecoderPlan, LayerPlan, RecurrentPlan
from service.engine.models.plans.sources import Source, Tensors


def _mamba_of(config: Any, **options: Any) -> RecurrentPlan:
    """Return a Mamba mixer from the fields that Mamba and Falcon-Mamba have, and `options`."""
    usual: dict[str, Any] = {"kind": "mamba", "num_key_heads": 1}
    if "value_dim" not in options:
        usual |= {
            "key_dim": config.state_size,
            "value_dim": config.intermediate_size,
            "taps": config.conv_kernel,
            "step_rank": config.time_step_rank,
            "has_convolution_bias": bool(config.use_conv_bias),
            "has_input_bias": bool(config.use_bias),
            "has_output_bias": bool(config.use_bias),
        }
    return RecurrentPlan(**usual | options)


def _decoder(config: Any, mixer: RecurrentPlan) -> DecoderPlan:
    require(config, "hidden_act", "silu")
    layers = [LayerPlan(recurrent=mixer, has_mlp_norm=False)] * config.num_hidden_layers
    return decoder_of(config, layers, rotary=(), norm_epsilon=config.layer_norm_epsilon)


def _mamba(config: Any) -> DecoderPlan:
    return _decoder(config, _mamba_of(config))


def _falcon_mamba(config: Any) -> DecoderPlan:
    return _decoder(config, _mamba_of(config, has_parameter_norms=True, parameter_epsilon=config.mixer_rms_eps))


def _jamba(config: Any) -> DecoderPlan:
    require(config, "hidden_act", "silu")
    mixer = _mamba_of(
        config,
        key_dim=config.mamba_d_state,
        value_dim=config.mamba_expand * config.hidden_size,
        taps=config.mamba_d_conv,
        step_rank=config.mamba_dt_rank,
        has_convolution_bias=bool(config.mamba_conv_bias),
        has_input_bias=bool(config.mamba_proj_bias),
        has_output_bias=bool(config.mamba_proj_bias),
        has_parameter_norms=True,
        parameter_epsilon=config.rms_norm_eps,
    )
    mixers: dict[str, Any] = {
        "mamba": {"recurrent": mixer},
        "attention": {"attention": attention_of(config, rotary=-1)},
    }
    dense, experts = dense_of(config), experts_of(config) if config.num_experts > 1 else None
    layers = [
        LayerPlan(feed_forward=dense if experts is None or count == 1 else experts, **mixers[kind])
        for kind, count in zip(config.layers_block_type, config.layers_num_experts, strict=True)
    ]
    return decoder_of(config, layers, rotary=())


def _sources(module: str) -> dict[str, Source]:
    """Return the sources of a mixer that is the module `module` of its layer."""
    names = {"in_proj": "in_proj", "out_proj": "out_proj", "x_proj": "x_proj", "dt_proj": "dt_proj", "skip": "D"}
    return {f"recurrent.{name}": Source(f"{module}.{own}") for name, own in names.items()} | {
        "recurrent.convolution": Source(f"{module}.conv1d", is_convolution=True),
        "recurrent.decay": Source(f"{module}.A_log", is_log_rates=True),
    }


_MAMBA: Final = _sources("mixer") | {
    "model.embed_tokens": Source("backbone.embeddings"),
    "model.norm": Source("backbone.norm_f"),
    "input_layernorm": Source("norm"),
}
_FALCON_MAMBA: Final = _MAMBA | {
    f"recurrent.{name}_norm": Source("", constant=1.0) for name in ("step", "key", "query")
}
_JAMBA: Final = (
    _sources("mamba")
    | FEED_FORWARD
    | {
        "mlp.gate": Source("feed_forward.router"),
        "recurrent.step_norm": Source("mamba.dt_layernorm"),
        "recurrent.key_norm": Source("mamba.b_layernorm"),
        "recurrent.query_norm": Source("mamba.c_layernorm"),
    }
)
_LAYERS: Final = "backbone.layers.{}."
_STORED_EXPERTS: Final = ExpertTensors(
    gate="feed_forward.experts.{}.gate_proj",
    up="feed_forward.experts.{}.up_proj",
    down="feed_forward.experts.{}.down_proj",
)
_LOADED_EXPERTS: Final = ExpertTensors(
    gate="feed_forward.experts.gate_up_proj",
    up="feed_forward.experts.gate_up_proj",
    down="feed_forward.experts.down_proj",
    weight="",
)

FAMILIES: Final = (
    Family(types=("mamba",), plan=_mamba, tensors=Tensors(modules=_MAMBA, layers="backbone.layers.{}.")),
    Family(
        types=("falcon_mamba",),
        plan=_falcon_mamba,
        tensors=Tensors(modules=_FALCON_MAMBA, layers="backbone.layers.{}."),
    ),
    Family(
        types=("jamba",),
        plan=_jamba,
        tensors=Tensors(modules=_JAMBA, experts=_STORED_EXPERTS),
        alternatives=(Tensors(modules=_JAMBA, experts=_LOADED_EXPERTS),),
    ),
)

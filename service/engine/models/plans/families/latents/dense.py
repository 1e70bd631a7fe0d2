"""MiniCPM3 and Youtu: latent attention (MLA), and dense MLPs."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.families.latents.attention import (
    HALVED_LATENT_ROTATION,
    latent_attention_of,
    latent_rotary_of,
)
from service.engine.models.plans.family import Family, decoder_of, dense_of, require
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.sources import Tensors


def _decoder(config: Any, **options: Any) -> DecoderPlan:
    layer = LayerPlan(attention=latent_attention_of(config), feed_forward=dense_of(config))
    return decoder_of(config, [layer] * config.num_hidden_layers, rotary=(latent_rotary_of(config),), **options)


def _minicpm3(config: Any) -> DecoderPlan:
    return _decoder(
        config,
        embedding_multiplier=float(config.scale_emb),
        residual_multiplier=config.scale_depth / config.num_hidden_layers**0.5,
        logit_multiplier=config.dim_model_base / config.hidden_size,
    )


def _youtu(config: Any) -> DecoderPlan:
    require(config, "rope_interleave", True)
    return _decoder(config)


FAMILIES: Final = (
    Family(types=("minicpm3",), plan=_minicpm3),
    Family(types=("youtu",), plan=_youtu, tensors=Tensors(modules=HALVED_LATENT_ROTATION)),
)

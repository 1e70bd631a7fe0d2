"""The table of sampling effects.

A request's parameters act on its row in this order: logprobs are taken first, then the effects change the logits in the
table's order, then the parameters of the draw (`Trait.DRAW`) choose the token. A request that uses no effect is
plain; samplers know effects by this table only.
"""

from __future__ import annotations

from service.engine.sampler.effects.allowed_tokens import AllowedTokens
from service.engine.sampler.effects.effect import Effect
from service.engine.sampler.effects.logit_bias import LogitBias
from service.engine.sampler.effects.minimum_length import MinimumLength
from service.engine.sampler.effects.output_constraint import OutputConstraint
from service.engine.sampler.effects.penalties import Penalties
from service.engine.sampler.effects.watermark import WatermarkBias
from service.engine.tokens.watermark import Watermark


def effects(watermark: Watermark) -> tuple[Effect, ...]:
    """Return all effects in their order of application, with empty state for one sampler."""
    return (
        Penalties(),
        LogitBias(),
        WatermarkBias(watermark),
        AllowedTokens(),
        MinimumLength(),
        OutputConstraint(),
    )

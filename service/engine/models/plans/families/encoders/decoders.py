"""Decoders of any family as encoders: embeddings of the last token or of all tokens, and scores of text pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service.engine.models.plans.encoder_family import EncoderFamily, Head, HeadLayer
from service.engine.models.plans.families.table import FAMILIES, family_plan
from service.engine.models.plans.plan import DecoderPlan, PlanUnsupportedError


def _head(_: Any) -> Head:
    return Head("lasttoken", (HeadLayer("score", has_bias=False),))


def decoder_family(model_type: str) -> EncoderFamily | None:
    """Return the family of a decoder's type that computes states, or None for an unknown type."""
    family = FAMILIES.get(model_type)
    if family is None:
        return None

    def plan(config: Any) -> DecoderPlan:
        whole = family_plan(family, config)
        if any(layer.recurrent is not None for layer in whole.layers):
            raise PlanUnsupportedError("it has recurrent layers")
        return replace(whole, has_head=False, is_tied=False, has_head_bias=False)

    return EncoderFamily(replace(family, plan=plan), _head)

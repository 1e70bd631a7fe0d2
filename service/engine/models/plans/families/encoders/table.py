"""The table of the families of encoders."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.encoder_family import EncoderFamily
from service.engine.models.plans.families.encoders import bert, distilbert, modernbert, rotated_bert
from service.engine.models.plans.families.encoders.decoders import decoder_family
from service.engine.models.plans.plan import PlanUnsupportedError

_MODULES: Final = (bert, distilbert, modernbert, rotated_bert)
_FAMILIES: Final[dict[str, EncoderFamily]] = {
    kind: family for module in _MODULES for family in module.FAMILIES for kind in family.family.types
}


def encoder_family(config: Any) -> EncoderFamily:
    """Return the family of an encoder, or of a decoder that embeds. Raise PlanUnsupportedError for an unknown type."""
    family = _FAMILIES.get(config.model_type) or decoder_family(config.model_type)
    if family is None:
        raise PlanUnsupportedError(f"the model_type {config.model_type} has no layer plan")
    return family

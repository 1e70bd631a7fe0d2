"""Lists of models in the OpenAI style."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson
from sluice.v1 import model_pb2
from sluice.v1.model_pb2 import Model

from gateway.dialects.seam.model_state import state_name

_MODALITIES: Final = {model_pb2.MODALITY_TEXT: "text", model_pb2.MODALITY_IMAGE: "image"}


def to_model_list(models: Iterable[Model]) -> bytes:
    """Return the body of `GET /v1/models`."""
    return orjson.dumps({"object": "list", "data": [_to_model(model) for model in models]})


def to_model(model: Model) -> bytes:
    """Return the body of `GET /v1/models/{id}`."""
    return orjson.dumps(_to_model(model))


def _to_model(model: Model) -> dict[str, Any]:
    modalities = [_MODALITIES[each] for each in model.input_modalities if each in _MODALITIES]
    adapts = {"root": model.parent, "parent": model.parent} if model.parent else {}
    return {
        "id": model.name,
        "object": "model",
        "created": model.created.seconds,
        "owned_by": "sluice",
        **({"input_modalities": modalities} if modalities else {}),
        **({"state": state} if (state := state_name(model)) is not None else {}),
        **adapts,
    }

"""The names of the states of a model, as the gateway's lists and pages show them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from sluice.v1.model_pb2 import MODEL_STATE_ASLEEP, MODEL_STATE_LOADED, MODEL_STATE_UNLOADED, Model

StateName: TypeAlias = Literal["loaded", "unloaded", "asleep"]

_NAMES: Final[dict[int, StateName]] = {
    MODEL_STATE_LOADED: "loaded",
    MODEL_STATE_UNLOADED: "unloaded",
    MODEL_STATE_ASLEEP: "asleep",
}


def state_name(model: Model) -> StateName | None:
    """Return the name of a model's state; None if the service doesn't report one."""
    return _NAMES.get(model.state)

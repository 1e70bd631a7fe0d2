"""The model repository of the open inference protocol: its index, and requests to load models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from sluice.inference import inference_pb2
from sluice.v1 import model_pb2

from service.calls.errors import InvalidMessage
from service.contract.inference.parameters import Given, set_fields
from service.contract.parts.rules import Rules
from service.generation.errors import InvalidRequest
from service.registry.description import ModelState
from service.registry.models import ServedModel

_RULES: Final = Rules((model_pb2.LoadModelRequest,))
_OWN: Final = frozenset({"name", "background"})  # the protocol has a name of its own, and no operations
_OPTIONS: Final = tuple(each.name for each in model_pb2.LoadModelRequest.DESCRIPTOR.fields if each.name not in _OWN)
_STATES: Final = {
    ModelState.LOADED: ("READY", ""),
    ModelState.UNLOADED: ("READY", "the next request loads the model"),
    ModelState.ASLEEP: ("UNAVAILABLE", "the model sleeps"),
}


def to_load_request(request: inference_pb2.RepositoryModelLoadRequest) -> model_pb2.LoadModelRequest:
    """Return the contract's request. Raise InvalidRequest or InvalidMessage."""
    made = model_pb2.LoadModelRequest(name=request.model_name, path=request.model_name)
    given: dict[str, Given] = {}
    for name, choice in request.parameters.items():
        path, kind = f'parameters["{name}"]', choice.WhichOneof("parameter_choice")
        if name == "config" or name.startswith("file:"):
            raise InvalidRequest(path, "not supported: models are folders below models_root with their own config.json")
        given[name] = Given(getattr(choice, kind) if kind else None, path)
    set_fields(given, [(made, _OPTIONS)])
    paths = {name: value.path for name, value in given.items()} | {"name": "model_name"}
    try:
        _RULES.check(made)
    except InvalidMessage as error:
        violations = [replace(each, field=paths.get(each.field, "model_name")) for each in error.violations]
        raise InvalidMessage(violations) from error
    return made


def index_message(
    models: Iterable[tuple[ServedModel, ModelState]],
    failed: Mapping[str, str],
    loading: Collection[str],
    *,
    only_ready: bool,
    shows_reasons: bool,
) -> inference_pb2.RepositoryIndexResponse:
    """Return the list of models with their states; `failed` has those that are not served, each with the reason.

    A model that its next request loads accepts requests, so it is ready. Those of `failed` in `loading` are being
    loaded.
    """
    message = inference_pb2.RepositoryIndexResponse()
    for model, present in models:
        is_asleep = present is ModelState.ASLEEP
        if not (only_ready and is_asleep):
            state, reason = _STATES[present]
            message.models.add(name=model.name, version=model.description.version, state=state, reason=reason)
    for name, reason in () if only_ready else failed.items():
        state = "LOADING" if name in loading else "UNAVAILABLE"
        message.models.add(name=name, state=state, reason=reason if shows_reasons else "the model isn't loaded")
    return message

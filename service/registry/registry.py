"""The registry of all served models and endpoints.

It is used on the event loop only. It loads nothing: `service.deployment` adds a model when it is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from service.generation.caller import Caller
from service.registry.endpoint_table import EndpointTable
from service.registry.models import ServedGenerator, ServedModel, adapted_name
from service.registry.visible import VisibleModels


class Registry:
    """All served models and endpoints, regardless of callers; `visible_to` returns what a caller may use.

    Models and endpoints share one name space; a model takes precedence over an endpoint of the same name.
    """

    def __init__(self) -> None:
        self._models: dict[str, ServedModel] = {}
        self._adapted: dict[str, ServedGenerator] = {}  # by MODEL:NAME
        self._failed: dict[str, str] = {}  # models that are not loaded, with the reasons
        self._loading: set[str] = set()  # those of them that are being loaded
        self.endpoints = EndpointTable()

    def visible_to(self, caller: Caller, on_route: Callable[[str, str], None] = lambda *_: None) -> VisibleModels:
        """Return the models and endpoints that `caller` may use; all others look nonexistent.

        `on_route` is called with the names of the endpoint and the entity that a request is routed to.
        """
        return VisibleModels(self, caller, on_route)

    def add(self, model: ServedModel) -> None:
        """Serve `model`, which may be a model with an adapter."""
        if isinstance(model, ServedGenerator) and model.adapter:
            self._adapted[model.name] = model
        else:
            self._models[model.name] = model
        self.forget(model.name)

    def leave_out(self, name: str, reason: str, *, is_loading: bool = False) -> None:
        """Record that a wanted model is not served: it is being loaded, or could not be loaded."""
        self._failed[name] = reason
        (self._loading.add if is_loading else self._loading.discard)(name)

    def forget(self, name: str) -> None:
        """Remove the record that a model is not served."""
        self._failed.pop(name, None)
        self._loading.discard(name)

    @property
    def failed(self) -> Mapping[str, str]:
        """The wanted models and adapters that are not served, by name, with the reason."""
        return self._failed

    def is_loading(self, name: str) -> bool:
        """Return whether a model that is not served is being loaded."""
        return name in self._loading

    @property
    def loads(self) -> Mapping[str, bool]:
        """All wanted models and adapters by name; the value is whether the model is served."""
        return dict.fromkeys(self._failed, False) | dict.fromkeys([*self._models, *self._adapted], True)

    def remove(self, name: str) -> None:
        """Stop serving a model and its adapters, or one adapter. Running requests keep it."""
        self._models.pop(name, None)
        self._adapted = {
            each: model for each, model in self._adapted.items() if name not in {each, model.description.parent}
        }

    @property
    def loaded(self) -> Sequence[ServedModel]:
        """The models with a separate engine, in the order in which they were added."""
        return [*self._models.values()]

    def adapters(self, model: str = "") -> Sequence[ServedGenerator]:
        """Return the adapters of a model, or of all models."""
        return [each for each in self._adapted.values() if not model or each.description.parent == model]

    def find(self, name: str) -> ServedModel | None:
        """Return the served model of that name, or None.

        An adapter's name without its model's is enough if nothing else has that name and only one model has such an
        adapter.
        """
        found = self._models.get(name) or self._adapted.get(name)
        if found is None and not self.endpoints.is_taken(name):
            adapted = [each for each in self._adapted.values() if each.adapter == name]
            found = adapted[0] if len(adapted) == 1 else None
        return found

    def is_taken(self, name: str) -> bool:
        """Return whether a model, an adapter or an endpoint has that name, served or not."""
        return name in self._failed or self.is_taken_for_load(name)

    def is_taken_for_load(self, name: str) -> bool:
        """Return whether a model of that name can't be added; a model that is being loaded doesn't block itself."""
        adapters = {each.adapter for each in self._adapted.values()}
        return (
            name in {*self._models, *self._adapted, *adapters}
            or (name in self._failed and name not in self._loading)
            or self.endpoints.is_taken(name)
        )

    def is_taken_for_adapter(self, model: str, name: str) -> bool:
        """Return whether an adapter of a model can't have that name; adapters of two models may share a name."""
        full = adapted_name(model, name)
        return any(each in self._models or self.endpoints.is_taken(each) for each in (name, full)) or (
            full in self._adapted
        )

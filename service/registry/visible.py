"""The models and endpoints that one caller may use, and the resolution of a request's name to a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol

from process.settings.names import suggestion
from service.generation.caller import Caller
from service.generation.errors import InvalidRequest, UnsupportedTask
from service.generation.service_level import BATCH, ServiceLevel
from service.registry.description import Endpoint, ServedEntity, Task
from service.registry.endpoint_table import EndpointTable, EntityLoad
from service.registry.errors import (
    DeploymentNotFound,
    EndpointNotFound,
    ModelNotFound,
    ModelNotLoaded,
    VersionNotFound,
)
from service.registry.models import RankingModel, ServedEncoder, ServedGenerator, ServedModel
from service.registry.traffic import check_shares, largest_entity

_TAG: Final = ":latest"


class ServedModels(Protocol):
    """The served models and endpoints, regardless of callers."""

    @property
    def endpoints(self) -> EndpointTable:
        """The endpoints."""

    @property
    def loaded(self) -> Sequence[ServedModel]:
        """The models with a separate engine, in the order in which they were added."""

    @property
    def failed(self) -> Mapping[str, str]:
        """The wanted models and adapters that are not served, by name, with the reason."""

    def is_loading(self, name: str) -> bool:
        """Return whether a model that is not served is being loaded."""

    def adapters(self, model: str = "") -> Sequence[ServedGenerator]:
        """Return the adapters of a model, or of all models."""

    def find(self, name: str) -> ServedModel | None:
        """Return the served model of that name, or None."""


class VisibleModels:
    """The served models as one caller sees them: those that it may not use look nonexistent."""

    def __init__(self, registry: ServedModels, caller: Caller, on_route: Callable[[str, str], None]) -> None:
        self._registry = registry
        self._caller = caller
        self._on_route = on_route

    def __iter__(self) -> Iterator[ServedModel]:
        """The models in the order in which they were added, each with its adapters; generative models come first."""
        found: list[ServedModel] = []
        for model in self._registry.loaded:
            found += [model] if self._caller.may_use(model.name) else []
            found += self.adapters(model.name)
        return iter(sorted(found, key=lambda model: not isinstance(model, ServedGenerator)))

    @property
    def failed(self) -> Mapping[str, str]:
        """The wanted models that are not served, each with the reason."""
        return {name: reason for name, reason in self._registry.failed.items() if self._caller.may_use(name)}

    def adapters(self, model: str = "") -> Sequence[ServedGenerator]:
        """The adapters of a model, or of all models."""
        return [each for each in self._registry.adapters(model) if self._caller.may_use(each.name)]

    def find(self, name: str) -> ServedModel | None:
        """Return the served model of that name, or None. An adapter's name may omit the model's if it is unique."""
        found = self._registry.find(name)
        return found if found is not None and self._caller.may_use(found.name) else None

    def own(self, name: str) -> ServedModel:
        """Return the model of exactly that name, which is no adapter. Raise ModelNotFound."""
        model = self.find(name)
        if model is None or model.name != name or model.description.parent:
            raise ModelNotFound(name)
        return model

    def base(self, name: str) -> ServedGenerator:
        """Return a model that takes adapters. Raise ModelNotFound, and UnsupportedTask for a model that takes none."""
        if (model := self.find(name)) is None:
            raise ModelNotFound(name)
        if not isinstance(model, ServedGenerator):
            raise UnsupportedTask(f"the model {name!r} doesn't generate text; it takes no adapters")
        if model.adapter:
            raise UnsupportedTask(f"the model {name!r} is an adapter; it takes no adapters")
        return model

    def endpoints(self) -> Iterator[Endpoint]:
        """The endpoints that are not a model's own, by name."""
        return filter(self._reaches, self._registry.endpoints)

    def find_endpoint(self, name: str) -> Endpoint | None:
        """Return the endpoint of that name, or None. A model's own endpoint is not among them."""
        endpoint = self._registry.endpoints.find(name)
        return endpoint if endpoint is not None and self._reaches(endpoint) else None

    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint of that name. Raise EndpointNotFound."""
        if (found := self.find_endpoint(name)) is None:
            raise EndpointNotFound(name)
        return found

    def entity_loads(self) -> Iterator[EntityLoad]:
        """The number of requests routed to each entity since it was added, in the order of the endpoints."""
        for endpoint in self.endpoints():
            yield from self._registry.endpoints.loads(endpoint)

    def get(self, name: str, deployment: str = "", began: str = "") -> ServedModel:
        """Return the model for a request: the model of that name, or one behind the endpoint of that name.

        The entity is the one named `deployment`, or without a name one drawn by traffic percentage. `began` is the
        model that began the answer, which is preferred as long as the endpoint has it.

        Raise ModelNotFound, ModelNotLoaded, or DeploymentNotFound if the endpoint has no such deployment.
        """
        name = self._untagged(name)
        self._check_loaded(name)
        if (model := self.find(name)) is None:
            if (endpoint := self.find_endpoint(name)) is None:
                raise ModelNotFound(name, suggestion=self._suggestion(name))
            entity = self._registry.endpoints.choose(endpoint, deployment, began)
            self._on_route(name, entity.name)
            return self._behind(name, entity)
        if deployment and deployment != name:
            raise DeploymentNotFound(name, deployment)
        self._on_route(name, name)
        return model

    def service_level(self, name: str) -> ServiceLevel:
        """Return the limits of the endpoint of that name; a model's own endpoint has none."""
        name = self._untagged(name)
        endpoint = self.find_endpoint(name) if self.find(name) is None else None
        return BATCH if endpoint is None else endpoint.service_level

    def leading(self, name: str) -> ServedModel:
        """Return the model of that name, or the one with the largest traffic percentage of the endpoint.

        Raise ModelNotFound or ModelNotLoaded.
        """
        name = self._untagged(name)
        self._check_loaded(name)
        if (model := self.find(name)) is not None:
            return model
        if (endpoint := self.find_endpoint(name)) is None:
            raise ModelNotFound(name, suggestion=self._suggestion(name))
        return self._behind(name, largest_entity(endpoint.entities))

    def generator(self, name: str, deployment: str = "", version: str = "", began: str = "") -> ServedGenerator:
        """Return a generative model, resolved like `get`, of `version` if one is given.

        Raise UnsupportedTask or VersionNotFound for another model.
        """
        model = self.get(name, deployment, began)
        if not isinstance(model, ServedGenerator):
            makes = "makes vectors" if isinstance(model, ServedEncoder) else "ranks texts"
            raise UnsupportedTask(f"the model {model.name!r} {makes}; it doesn't generate text")
        if version and version != model.description.version:
            raise VersionNotFound(model.name, version, model.description.version)
        return model

    def encoder(self, name: str, deployment: str = "") -> ServedEncoder:
        """Return an embedding model, resolved like `get`. Raise UnsupportedTask for another model."""
        model = self.get(name, deployment)
        if not isinstance(model, ServedEncoder):
            does = "generates text" if isinstance(model, ServedGenerator) else "ranks texts"
            raise UnsupportedTask(f"the model {model.name!r} {does}; it makes no vectors")
        return model

    def ranking(self, name: str, deployment: str = "") -> RankingModel:
        """Return a model that ranks, resolved like `get`. Raise UnsupportedTask for another model."""
        model = self.get(name, deployment)
        if model.ranker is None:
            raise UnsupportedTask(f"the model {model.name!r} generates text; it ranks only by the setting `rank`")
        return RankingModel(model.name, model.ranker)

    def _untagged(self, name: str) -> str:
        """Return a name without the tag `latest`, which Ollama's clients add to names without one.

        A model, adapter or endpoint whose name has that end keeps it.
        """
        is_known = self.find(name) is not None or self.find_endpoint(name) is not None or name in self.failed
        return name if is_known else name.removesuffix(_TAG)

    def _suggestion(self, name: str) -> str:
        """Return the end of an error about an unknown name, with the closest one that the caller may use."""
        return suggestion(name, [*(model.name for model in self), *(each.name for each in self.endpoints())])

    def new_endpoint(self, name: str, entities: Sequence[ServedEntity], absent: Collection[str] = ()) -> Endpoint:
        """Return an endpoint created now. Models in `absent` need not be served.

        Raise ModelNotFound, or InvalidRequest for entities that can't be combined.
        """
        check_shares(entities)
        return Endpoint.now(name, self._common_task([entity.model for entity in entities], absent), entities)

    def _common_task(self, names: Sequence[str], absent: Collection[str]) -> Task:
        """The first task that all loaded models of `names` support; chat precedes completion."""
        common = set(Task)
        for name in names:
            if name in self.failed or (name in absent and self.find(name) is None):
                continue
            if (model := self.find(name)) is None:
                raise ModelNotFound(name)
            common &= set(model.description.tasks)
        if not common:
            raise InvalidRequest("entities", "the models have no task in common")
        return min(common)

    def _check_loaded(self, name: str, endpoint: str = "") -> None:
        """Raise ModelNotLoaded if the model is one that could not be loaded, or is being loaded."""
        if name in self._registry.failed and self._caller.may_use(name):
            raise ModelNotLoaded(name, endpoint, is_loading=self._registry.is_loading(name))

    def _behind(self, endpoint: str, entity: ServedEntity) -> ServedModel:
        """Return the model of an endpoint's entity. Raise ModelNotLoaded or ModelNotFound."""
        self._check_loaded(entity.model, endpoint)
        if (model := self.find(entity.model)) is None:
            raise ModelNotFound(entity.model, endpoint)
        return model

    def _reaches(self, endpoint: Endpoint) -> bool:
        """Return whether the caller may use the endpoint."""
        return self._caller.may_reach(endpoint.name, (entity.model for entity in endpoint.entities))

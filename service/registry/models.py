"""The served models, and the resolution of a request's name to one of them.

The registry belongs to the event loop. It loads nothing: the server adds each model when it is ready.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from service.call import current_caller, route_call
from service.engine.port import Embedder, Generator
from service.engine.tokenizer import Tokenizer
from service.generation.errors import InvalidRequest, UnsupportedTask
from service.output.watermark import WatermarkDetector
from service.prompting.preparation import Preparation
from service.prompts.embedding import EmbeddingPrompts
from service.ranking.bi_encoder import BiEncoderRanker
from service.ranking.cross_encoder import CrossEncoderRanker
from service.ranking.judge import JudgeRanker
from service.ranking.ranker import Ranker
from service.registry.description import Endpoint, ModelDescription, ServedEntity, Task
from service.registry.endpoint_table import EndpointTable
from service.registry.errors import DeploymentNotFound, ModelNotFound, ModelNotLoaded, VersionNotFound
from service.registry.traffic import check_shares, largest_entity


@dataclass(frozen=True, slots=True)
class ServedGenerator:
    """A model that generates, with all that answers for it."""

    description: ModelDescription
    engine: Generator
    preparation: Preparation
    watermark: WatermarkDetector
    tokenizer: Tokenizer
    ranker: JudgeRanker | None = None  # if its settings say how it ranks
    adapter: str = ""  # what makes it another model than the engine's own; its own name, without the model's

    @property
    def name(self) -> str:
        return self.description.name

    def adapted(self, adapter: str, fingerprint: str) -> ServedGenerator:
        """The same model with an adapter that its engine holds. It closes with the model."""
        name = adapted_name(self.name, adapter)
        tasks = [task for task in self.description.tasks if task is not Task.RANK]
        description = replace(
            self.description, name=name, parent=self.name, created_ns=time.time_ns(), tasks=tasks,
            fingerprint=fingerprint,
        )  # fmt: skip
        preparation = self.preparation.with_adapter(name, adapter)
        return replace(self, description=description, preparation=preparation, ranker=None, adapter=adapter)

    async def close(self) -> None:
        """End its engine and its threads."""
        await self.engine.close()
        self.preparation.close()
        if self.ranker is not None:
            self.ranker.close()


@dataclass(frozen=True, slots=True)
class ServedEncoder:
    """A model that makes vectors, with all that answers for it."""

    description: ModelDescription
    engine: Embedder
    prompts: EmbeddingPrompts
    tokenizer: Tokenizer

    @property
    def name(self) -> str:
        return self.description.name

    async def close(self) -> None:
        """End its engine and its threads."""
        await self.engine.close()
        self.prompts.close()

    @property
    def ranker(self) -> Ranker:
        """By the cosines of its vectors."""
        return BiEncoderRanker(self.engine, self.prompts)


@dataclass(frozen=True, slots=True)
class ServedCrossEncoder:
    """A model that scores pairs of texts, with all that answers for it."""

    description: ModelDescription
    engine: Embedder
    ranker: CrossEncoderRanker
    tokenizer: Tokenizer

    @property
    def name(self) -> str:
        return self.description.name

    async def close(self) -> None:
        """End its engine and its threads."""
        await self.engine.close()
        self.ranker.close()


ServedModel: TypeAlias = ServedGenerator | ServedEncoder | ServedCrossEncoder


def adapted_name(model: str, adapter: str) -> str:
    """What requests call an adapter of a model; where no other model has one of the name, it alone will do."""
    return f"{model}:{adapter}"


@dataclass(frozen=True, slots=True)
class RankingModel:
    """A model and what it ranks by."""

    name: str
    ranker: Ranker


class Registry:
    """All that is served. Models and endpoints share one name space; where both have a name, the model counts.

    Within a call it has what the caller may use, and nothing else: what is kept from him looks like what isn't there.
    Outside of a call it has everything.
    """

    def __init__(self) -> None:
        self._models: dict[str, ServedModel] = {}
        self._adapted: dict[str, ServedGenerator] = {}  # by the models' names with the adapters'
        self._failed: dict[str, str] = {}  # names of models that are not loaded, with the reasons
        self._coming: set[str] = set()  # those of them that are being loaded
        self.endpoints = EndpointTable()

    def add(self, model: ServedModel) -> None:
        """Serve `model` from now on, which may be one with an adapter."""
        if isinstance(model, ServedGenerator) and model.adapter:
            self._adapted[model.name] = model
        else:
            self._models[model.name] = model
        self.forget(model.name)

    def leave_out(self, name: str, reason: str, *, is_coming: bool = False) -> None:
        """Note that a model could not be loaded that is to be served, or is being loaded."""
        self._failed[name] = reason
        (self._coming.add if is_coming else self._coming.discard)(name)

    def forget(self, name: str) -> None:
        """Note no more that a model is not loaded."""
        self._failed.pop(name, None)
        self._coming.discard(name)

    @property
    def failed(self) -> Mapping[str, str]:
        """The models that are not loaded and that the caller might use, each with the reason."""
        return {name: reason for name, reason in self._failed.items() if current_caller().may_use(name)}

    @property
    def loads(self) -> Mapping[str, bool]:
        """The models and adapters by name, and whether each could be loaded."""
        return dict.fromkeys(self._failed, False) | dict.fromkeys([*self._models, *self._adapted], True)

    def remove(self, name: str) -> None:
        """Serve the model of that name no more, nor its adapters; those who have it keep it."""
        self._models.pop(name, None)
        self._adapted = {
            each: model for each, model in self._adapted.items() if name not in {each, model.description.parent}
        }

    @property
    def loaded(self) -> Sequence[ServedModel]:
        """The models with engines of their own, in the order in which they were added."""
        return [*self._models.values()]

    def adapters(self, model: str = "") -> Sequence[ServedGenerator]:
        """The adapters of a model, or of all, that the caller may use."""
        return [
            each
            for each in self._adapted.values()
            if (not model or each.description.parent == model) and current_caller().may_use(each.name)
        ]

    def get(self, name: str, deployment: str = "", began: str = "") -> ServedModel:
        """The model of that name, or one behind the endpoint of that name: `deployment`, or one by traffic.

        The current call notes which. `began` is the model that the answer was begun by, which the endpoint may have no
        more.

        Raises ModelNotFound, ModelNotLoaded, or DeploymentNotFound if the endpoint has no such deployment.
        """
        if name in self.failed:
            raise ModelNotLoaded(name, is_coming=name in self._coming)
        if (model := self.find(name)) is None:
            entity = self.endpoints.choose(name, deployment, began)
            route_call(name, entity.name)
            return self._behind(name, entity)
        if deployment and deployment != name:
            raise DeploymentNotFound(name, deployment)
        route_call(name, name)
        return model

    def leading(self, name: str) -> ServedModel:
        """The model of that name, or the one that gets most of the endpoint's requests.

        Raises ModelNotFound or ModelNotLoaded.
        """
        if name in self.failed:
            raise ModelNotLoaded(name, is_coming=name in self._coming)
        if (model := self.find(name)) is not None:
            return model
        if (endpoint := self.endpoints.find(name)) is None:
            raise ModelNotFound(name)
        return self._behind(name, largest_entity(endpoint.entities))

    def find(self, name: str) -> ServedModel | None:
        """The model of that name, if it is served.

        A name alone is an adapter's, if nothing else has it and one model's adapter does.
        """
        found = self._models.get(name) or self._adapted.get(name)
        if found is None and not self.endpoints.is_taken(name):
            own = [each for each in self._adapted.values() if each.adapter == name]
            found = own[0] if len(own) == 1 else None
        return found if found is not None and current_caller().may_use(found.name) else None

    def is_taken(self, name: str) -> bool:
        """Whether a model, an adapter or an endpoint has that name, be it one that is kept from the caller."""
        return name in self._failed or self.is_taken_for_load(name)

    def is_taken_for_load(self, name: str) -> bool:
        """As `is_taken`, for the model itself that is being loaded."""
        adapters = {each.adapter for each in self._adapted.values()}
        return (
            name in {*self._models, *self._adapted, *adapters}
            or (name in self._failed and name not in self._coming)
            or self.endpoints.is_taken(name)
        )

    def is_taken_for_adapter(self, model: str, name: str) -> bool:
        """Whether an adapter of a model can't have that name; those of two models may have the same."""
        full = adapted_name(model, name)
        return any(each in self._models or self.endpoints.is_taken(each) for each in (name, full)) or (
            full in self._adapted
        )

    def common_task(self, names: Sequence[str], absent: Collection[str] = ()) -> Task:
        """The first task that all those models serve, of what is loaded of them; chat comes before completion.

        Those in `absent` may be missing. Raises ModelNotFound, or InvalidRequest if there is none.
        """
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

    def new_endpoint(self, name: str, entities: Sequence[ServedEntity], absent: Collection[str] = ()) -> Endpoint:
        """An endpoint made now, of models that may be missing if they are in `absent`.

        Raises ModelNotFound, or InvalidRequest for entities that don't go together.
        """
        check_shares(entities)
        return Endpoint.now(name, self.common_task([entity.model for entity in entities], absent), entities)

    def generator(self, name: str, deployment: str = "", version: str = "", began: str = "") -> ServedGenerator:
        """As `get`, a model that generates, in that version if one is given.

        Raises UnsupportedTask or VersionNotFound for another.
        """
        model = self.get(name, deployment, began)
        if not isinstance(model, ServedGenerator):
            makes = "makes vectors" if isinstance(model, ServedEncoder) else "ranks texts"
            raise UnsupportedTask(f"the model {model.name!r} {makes}; it doesn't generate text")
        if version and version != model.description.version:
            raise VersionNotFound(model.name, version, model.description.version)
        return model

    def encoder(self, name: str, deployment: str = "") -> ServedEncoder:
        """As `get`, a model that makes vectors. Raises UnsupportedTask for one that doesn't."""
        model = self.get(name, deployment)
        if not isinstance(model, ServedEncoder):
            does = "generates text" if isinstance(model, ServedGenerator) else "ranks texts"
            raise UnsupportedTask(f"the model {model.name!r} {does}; it makes no vectors")
        return model

    def ranking(self, name: str, deployment: str = "") -> RankingModel:
        """As `get`, a model that ranks. Raises UnsupportedTask for one that doesn't."""
        model = self.get(name, deployment)
        if model.ranker is None:
            raise UnsupportedTask(f"the model {model.name!r} generates text; it ranks only by the setting `rank`")
        return RankingModel(model.name, model.ranker)

    def _behind(self, endpoint: str, entity: ServedEntity) -> ServedModel:
        if entity.model in self.failed:
            raise ModelNotLoaded(entity.model, endpoint, is_coming=entity.model in self._coming)
        if (model := self.find(entity.model)) is None:
            raise ModelNotFound(entity.model, endpoint)
        return model

    def __iter__(self) -> Iterator[ServedModel]:
        """The models in the order in which they were added, those that generate first; each with its adapters."""
        found: list[ServedModel] = []
        for name in self._models:
            found += [model] if (model := self.find(name)) is not None else []
            found += self.adapters(name)
        return iter(sorted(found, key=lambda model: not isinstance(model, ServedGenerator)))

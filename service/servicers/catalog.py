"""What is served, by name.

Owns the map from a request's model name to what answers it. Only the loop's thread may call it. It doesn't load
anything: the server adds each model when it is ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sluice.v1 import endpoint_pb2, model_pb2

from service.engine.encoder_engine import EncoderEngine
from service.engine.engine import Engine
from service.engine.tokenizer import Tokenizer
from service.errors import DeploymentNotFound, ModelNotFound, UnsupportedTask
from service.generation.errors import InvalidRequest
from service.pipeline.chat import ChatPipeline
from service.pipeline.completion import CompletionPipeline
from service.pipeline.embedding import EmbeddingPipeline
from service.pipeline.watermark import WatermarkDetector
from service.servicers.endpoint_table import EndpointTable
from service.servicers.traffic import largest_entity


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that generates, with all that answers for it.

    `description` is what callers are told of it, its name included. `chat_pipeline` is None for a model without a chat
    template.
    """

    description: model_pb2.Model
    engine: Engine
    chat_pipeline: ChatPipeline | None
    completion: CompletionPipeline
    watermark: WatermarkDetector
    tokenizer: Tokenizer

    @property
    def name(self) -> str:
        return self.description.name

    @property
    def chat(self) -> ChatPipeline:
        """Raises UnsupportedTask for a model without a chat template."""
        if self.chat_pipeline is None:
            raise UnsupportedTask(f"the model {self.name!r} has no chat template; it completes prompts only")
        return self.chat_pipeline

    async def close(self) -> None:
        """End its engine and its threads."""
        await self.engine.close()
        self.completion.close()
        if self.chat_pipeline is not None:
            self.chat_pipeline.close()


@dataclass(frozen=True, slots=True)
class ServedEncoder:
    """A model that makes vectors. `description` is what callers are told of it, its name included."""

    description: model_pb2.Model
    engine: EncoderEngine
    embeddings: EmbeddingPipeline
    tokenizer: Tokenizer

    @property
    def name(self) -> str:
        return self.description.name

    async def close(self) -> None:
        """End its engine and its threads."""
        await self.engine.close()
        self.embeddings.close()


Served: TypeAlias = ServedModel | ServedEncoder


class Catalog:
    """All that is served. Models and endpoints share one name space; where both have a name, the model counts."""

    def __init__(self) -> None:
        self._models: dict[str, Served] = {}
        self.endpoints = EndpointTable()

    def add(self, model: Served) -> None:
        """Serve `model` from now on."""
        self._models[model.name] = model

    def get(self, name: str, deployment: str = "") -> Served:
        """The model of that name, or one behind the endpoint of that name: `deployment`, or one by traffic.

        Raises ModelNotFound, or DeploymentNotFound if the endpoint has no such deployment.
        """
        if (model := self.find(name)) is None:
            return self._behind(name, self.endpoints.choose(name, deployment))
        if deployment and deployment != name:
            raise DeploymentNotFound(name, deployment)
        return model

    def leading(self, name: str) -> Served:
        """The model of that name, or the one that gets most of the endpoint's requests. Raises ModelNotFound."""
        if (model := self.find(name)) is not None:
            return model
        if (endpoint := self.endpoints.find(name)) is None:
            raise ModelNotFound(name)
        return self._behind(name, largest_entity(endpoint.entities))

    def find(self, name: str) -> Served | None:
        """The model of that name, if it is served."""
        return self._models.get(name)

    def common_task(self, names: Sequence[str]) -> model_pb2.Task:
        """The first task that all those models serve; chat comes before completion.

        Raises ModelNotFound, or InvalidRequest if there is none.
        """
        common: set[model_pb2.Task] = {model_pb2.TASK_CHAT, model_pb2.TASK_COMPLETION, model_pb2.TASK_EMBEDDING}
        for name in names:
            if (model := self.find(name)) is None:
                raise ModelNotFound(name)
            common &= set(model.description.tasks)
        if not common:
            raise InvalidRequest("entities", "the models must serve one task, which these don't")
        return min(common)

    def generator(self, name: str, deployment: str = "") -> ServedModel:
        """As `get`, a model that generates. Raises UnsupportedTask for one that doesn't."""
        model = self.get(name, deployment)
        if not isinstance(model, ServedModel):
            raise UnsupportedTask(f"the model {model.name!r} makes vectors; it doesn't generate text")
        return model

    def encoder(self, name: str, deployment: str = "") -> ServedEncoder:
        """As `get`, a model that makes vectors. Raises UnsupportedTask for one that doesn't."""
        model = self.get(name, deployment)
        if not isinstance(model, ServedEncoder):
            raise UnsupportedTask(f"the model {model.name!r} generates text; it makes no vectors")
        return model

    def _behind(self, endpoint: str, entity: endpoint_pb2.ServedEntity) -> Served:
        if (model := self.find(entity.model)) is None:
            raise ModelNotFound(entity.model, endpoint)
        return model

    def __iter__(self) -> Iterator[Served]:
        """The models in the order of their names."""
        return iter(sorted(self._models.values(), key=lambda model: model.name))

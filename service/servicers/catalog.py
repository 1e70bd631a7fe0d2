"""The models that are served, by name.

Owns the map from a request's model name to what answers it. Only the loop's thread may call it. It doesn't load
anything: the server adds each model when it is ready.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sluice.v1 import model_pb2

from service.engine.engine import Engine
from service.errors import ModelNotFound
from service.pipeline.chat import ChatPipeline
from service.pipeline.watermark import WatermarkDetector


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model with all that answers for it. `description` is what callers are told of it, its name included."""

    description: model_pb2.Model
    engine: Engine
    chat: ChatPipeline
    watermark: WatermarkDetector

    @property
    def name(self) -> str:
        return self.description.name


class Catalog:
    """All served models."""

    def __init__(self) -> None:
        self._models: dict[str, ServedModel] = {}

    def add(self, model: ServedModel) -> None:
        """Serve `model` from now on."""
        self._models[model.name] = model

    def get(self, name: str) -> ServedModel:
        """Raises ModelNotFound."""
        if name not in self._models:
            raise ModelNotFound(name)
        return self._models[name]

    def __iter__(self) -> Iterator[ServedModel]:
        """The models in the order of their names."""
        return iter(sorted(self._models.values(), key=lambda model: model.name))

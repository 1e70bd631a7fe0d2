"""Descriptions of models and endpoints, as values."""

from __future__ import annotations

import enum
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.generation.service_level import BATCH, ServiceLevel

_BYTES_OF_DTYPE: Final = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "int8": 1.0}


class Task(enum.IntEnum):
    """A task that a model supports. The smallest of several is the model's first task."""

    CHAT = 1
    COMPLETION = 2
    EMBEDDING = 3
    RANK = 4


class ModelState(enum.Enum):
    """Whether a served model is in memory: in it, loaded by its next request, or put to sleep by an operator."""

    LOADED = "loaded"
    UNLOADED = "unloaded"
    ASLEEP = "asleep"


class Modality(enum.Enum):
    """A kind of input that a model reads."""

    TEXT = "text"
    IMAGE = "image"


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """The public description of a model. Times are nanoseconds since the epoch."""

    name: str
    created_ns: int = 0
    tasks: Sequence[Task] = ()
    architecture: str = ""
    max_model_len: int = 0
    vocab_size: int = 0
    num_parameters: int = 0
    dtype: str = ""
    fingerprint: str = ""
    supports_tools: bool = False
    supports_reasoning: bool = False
    version: str = ""
    embedding_dimensions: int = 0
    supports_resume: bool = False
    parent: str = ""  # the base model of an adapter; else empty
    input_modalities: Sequence[Modality] = (Modality.TEXT,)

    @property
    def weight_bytes(self) -> int:
        """The size of the weights in memory, without scales and padding. A packed type counts as half a byte."""
        return int(self.num_parameters * _BYTES_OF_DTYPE.get(self.dtype, 0.5))


@dataclass(frozen=True, slots=True)
class ServedEntity:
    """One model behind an endpoint, with its share of the requests in percent."""

    name: str
    model: str
    traffic_percentage: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A name with models behind it. Times are nanoseconds since the epoch."""

    name: str
    task: Task | None  # None if a file written by hand has none
    entities: Sequence[ServedEntity]
    created_ns: int
    updated_ns: int
    config_version: int = 1
    is_model: bool = False
    parent: str = ""  # the base model of an adapter; else empty
    service_level: ServiceLevel = BATCH  # default for requests

    @classmethod
    def of_model(cls, model: ModelDescription) -> Endpoint:
        """Return a served model's own endpoint."""
        entity = ServedEntity(model.name, model.name, 100)
        return cls(
            model.name,
            model.tasks[0],
            (entity,),
            model.created_ns,
            model.created_ns,
            is_model=True,
            parent=model.parent,
        )

    @classmethod
    def now(cls, name: str, task: Task, entities: Sequence[ServedEntity]) -> Endpoint:
        """Return an endpoint created now."""
        epoch_ns = time.time_ns()
        return cls(name, task, tuple(entities), epoch_ns, epoch_ns)

"""The description that a loaded model reports, on a thread or in a worker process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from service.engine.interface.cache_group import ONE_GROUP, CacheGroup
from service.engine.interface.config import EngineConfig
from service.generation.requests.ranking import Activation

ComputeDtype: TypeAlias = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The properties of a loaded model."""

    architecture: str  # the class name in the configuration, or its model type
    max_model_len: int  # tokens of prompt and answer together, or of a text to embed
    vocab_size: int  # of the logits or the token embeddings; the tokenizer may use less
    dtype: str  # of the weights in memory, such as "float32" or "int8"
    device: str
    num_parameters: int  # as stored; a tied head counts once
    is_invariant: bool  # True if a sequence's tokens do not depend on the rest of the batch
    fingerprint: str  # a hash of all that affects tokens: the model's files, its type, backend and versions
    takes_images: bool = False


@dataclass(frozen=True, slots=True)
class GeneratorDescription:
    """The properties of a generating model that the engine's client needs.

    In a plan of a model that was not loaded yet, the configuration has the limits of a cache that is large enough, and
    `cache_groups` are unknown.
    """

    config: EngineConfig  # no field is None
    info: ModelInfo
    vocab_size: int  # the tokenizer's, which may be less than the model's
    eos_token_ids: frozenset[int]
    cache_groups: Sequence[CacheGroup] = ONE_GROUP

    def matches(self, description: Any) -> bool:
        """Return whether a loaded model is the planned one; its maximum length depends on the memory for its cache."""
        return isinstance(description, GeneratorDescription) and self.promises == description.promises

    @property
    def promises(self) -> tuple[ModelInfo, int, frozenset[int]]:
        """What doesn't depend on the memory for the cache: the facts, the vocabulary, and the ends of texts."""
        return self.info, self.vocab_size, self.eos_token_ids


@dataclass(frozen=True, slots=True)
class EncoderDescription:
    """The properties of an encoder that the engine's client needs."""

    config: EngineConfig  # with an encoder's limits filled in
    info: ModelInfo
    body: Path  # the folder of its tokenizer
    num_dimensions: int
    lowers_case: bool  # True if texts are converted to lower case before tokenization
    prompts: Mapping[str, str]  # the prefixes of a text, by purpose
    default_prompt: str
    dimensions: Sequence[int] | None  # lengths to which a vector can be truncated; None: any; empty: unknown

    def matches(self, description: Any) -> bool:
        """Return whether a loaded encoder is as planned."""
        return bool(self == description)


@dataclass(frozen=True, slots=True)
class CrossEncoderDescription:
    """The properties of a cross-encoder that the engine's client needs."""

    config: EngineConfig  # with an encoder's limits filled in
    info: ModelInfo
    body: Path  # the folder of its tokenizer
    activation: Activation

    def matches(self, description: Any) -> bool:
        """Return whether a loaded cross-encoder is as planned."""
        return bool(self == description)

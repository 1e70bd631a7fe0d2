"""The description that a loaded model reports, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from service.engine.config import EngineConfig
from service.generation.ranking import Activation

ComputeDtype: TypeAlias = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What there is to know about a loaded model."""

    architecture: str  # the class name that the configuration gives, or its model type
    max_model_len: int  # tokens of prompt and answer together, or of a text to embed
    vocab_size: int  # of the logits or the token embeddings; the tokenizer may use less
    dtype: str  # of the weights in memory, such as "float32" or "int8"
    device: str
    num_parameters: int  # as stored; a tied head counts once
    is_invariant: bool  # whether a sequence's tokens are the same whatever else is computed
    fingerprint: str  # changes with what may change tokens: the model's files, its type, backend and versions
    takes_images: bool = False


@dataclass(frozen=True, slots=True)
class GeneratorDescription:
    """What a front needs of a model that generates."""

    config: EngineConfig  # with nothing left None
    info: ModelInfo
    vocab_size: int  # the tokenizer's, which may be less than the model's
    eos_token_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class EncoderDescription:
    """What a front needs of an encoder."""

    config: EngineConfig  # with the sizes that an encoder has filled in
    info: ModelInfo
    body: Path  # the folder of its tokenizer
    num_dimensions: int
    lowers_case: bool  # texts, before they become tokens
    prompts: Mapping[str, str]  # what stands before a text, by what the text is for
    default_prompt: str
    dimensions: Sequence[int] | None  # that a vector may be cut to; None: any; empty: the folder doesn't say


@dataclass(frozen=True, slots=True)
class CrossEncoderDescription:
    """What a front needs of a cross-encoder."""

    config: EngineConfig  # with the sizes that an encoder has filled in
    info: ModelInfo
    body: Path  # the folder of its tokenizer
    activation: Activation

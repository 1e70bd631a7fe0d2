"""The answers and errors of Ollama's API, as types for the OpenAPI document. Durations are in nanoseconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Count = Annotated[int, Meta(ge=0)]
DoneReason = Literal["stop", "length", "load", "content_filter"]


class OllamaMessageAnswer(msgspec.Struct, omit_defaults=True):
    """The model's message, or a piece of it."""

    role: Literal["assistant"]
    content: str
    thinking: str | UnsetType = UNSET
    tool_calls: list[dict[str, Any]] | UnsetType = UNSET


class OllamaChatAnswer(msgspec.Struct, omit_defaults=True):
    """A chat's answer; in a stream a piece of it, of which the last one has `done`, the reason and the counts."""

    model: str
    message: OllamaMessageAnswer
    done: bool
    created_at: str | UnsetType = UNSET
    done_reason: DoneReason | UnsetType = UNSET
    logprobs: list[dict[str, Any]] | UnsetType = UNSET
    total_duration: Count | UnsetType = UNSET
    load_duration: Count | UnsetType = UNSET
    prompt_eval_count: Count | UnsetType = UNSET
    prompt_eval_duration: Count | UnsetType = UNSET
    eval_count: Count | UnsetType = UNSET
    eval_duration: Count | UnsetType = UNSET
    receipt: str | UnsetType = UNSET


class OllamaGenerateAnswer(msgspec.Struct, omit_defaults=True):
    """A generated text; in a stream a piece of it, of which the last one has `done`, the reason and the counts."""

    model: str
    response: str
    done: bool
    created_at: str | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    done_reason: DoneReason | UnsetType = UNSET
    logprobs: list[dict[str, Any]] | UnsetType = UNSET
    total_duration: Count | UnsetType = UNSET
    load_duration: Count | UnsetType = UNSET
    prompt_eval_count: Count | UnsetType = UNSET
    prompt_eval_duration: Count | UnsetType = UNSET
    eval_count: Count | UnsetType = UNSET
    eval_duration: Count | UnsetType = UNSET
    receipt: str | UnsetType = UNSET


class OllamaEmbedAnswer(msgspec.Struct, omit_defaults=True):
    """The vectors of all inputs."""

    model: str
    embeddings: list[list[float]]
    total_duration: Count | UnsetType = UNSET
    prompt_eval_count: Count | UnsetType = UNSET


class OllamaEmbeddingAnswer(msgspec.Struct):
    """The vector of one text; empty for an empty text."""

    embedding: list[float]


class OllamaModelDetails(msgspec.Struct):
    """The kind of a model. `parameter_size` is a rounded number such as `7.6B`."""

    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class OllamaListedModel(msgspec.Struct):
    """A served model. `size` is the size of its weights in bytes, by their number and type."""

    name: str
    model: str
    modified_at: str
    size: Count
    digest: str
    details: OllamaModelDetails


class OllamaTagsAnswer(msgspec.Struct):
    """The served models."""

    models: list[OllamaListedModel]


class OllamaRunningModel(msgspec.Struct):
    """A model in memory."""

    name: str
    model: str
    size: Count
    digest: str
    details: OllamaModelDetails
    expires_at: str
    size_vram: Count
    context_length: Count


class OllamaPsAnswer(msgspec.Struct):
    """The models in memory."""

    models: list[OllamaRunningModel]


class OllamaShowAnswer(msgspec.Struct):
    """The description of a model."""

    license: str
    modelfile: str
    parameters: str
    template: str
    details: OllamaModelDetails
    model_info: dict[str, Any]
    capabilities: list[Literal["completion", "tools", "thinking", "vision", "embedding"]]
    modified_at: str


class OllamaVersionAnswer(msgspec.Struct):
    """The version of Ollama whose API is served."""

    version: str


class OllamaError(msgspec.Struct):
    """An error of Ollama's API."""

    error: str

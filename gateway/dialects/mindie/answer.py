"""The answers of MindIE and Triton, as types for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Milliseconds = Annotated[float, Meta(ge=0)]


FinishReason = Literal["eos_token", "length", "stop_sequence"]


class GenerationDetails(msgspec.Struct):
    """The finish reason of a generated text, and its timings."""

    generated_tokens: int | None = None
    finish_reason: FinishReason | None = None
    first_token_cost: Milliseconds | None = None
    decode_cost: Milliseconds | None = None
    batch_size: int | None = None
    queue_wait_time: float | None = None


class GenerationAnswer(msgspec.Struct):
    """A whole generated text."""

    model_name: str
    model_version: str
    text_output: str
    finish_reason: FinishReason
    id: str | None = None
    details: GenerationDetails | None = None
    receipt: str | None = None


class GenerationChunk(msgspec.Struct):
    """A piece of a generated text; the last one has the finish reason."""

    id: str
    model_name: str
    model_version: str
    text_output: str
    finish_reason: FinishReason | None = None
    details: GenerationDetails | None = None
    receipt: str | None = None


class TritonError(msgspec.Struct):
    """An error in the dialect of MindIE and Triton."""

    error: str
    error_type: str


class ServerMetadata(msgspec.Struct):
    """The server, as KServe's protocol describes it."""

    name: str
    version: str
    extensions: list[str]


class ModelMetadata(msgspec.Struct):
    """A model, as KServe's protocol describes it."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]


class ModelConfig(msgspec.Struct):
    """A model, in the form of Triton's configuration."""

    name: str
    platform: str
    backend: str
    max_batch_size: int
    input: list[dict[str, Any]]
    output: list[dict[str, Any]]
    parameters: dict[str, Any]
    model_transaction_policy: dict[str, bool]


class StatisticDuration(msgspec.Struct):
    """A number of events, and the sum of their durations in nanoseconds."""

    count: int
    ns: int


class InferStatistics(msgspec.Struct):
    """The numbers and the times of the inferences of a model."""

    success: StatisticDuration
    fail: StatisticDuration
    queue: StatisticDuration
    compute_input: StatisticDuration
    compute_infer: StatisticDuration
    compute_output: StatisticDuration
    cache_hit: StatisticDuration
    cache_miss: StatisticDuration


class CountedModel(msgspec.Struct):
    """A model with its inferences. `last_inference` is in milliseconds since the epoch; 0 if there was none."""

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: InferStatistics


class ModelStatistics(msgspec.Struct):
    """The statistics of models."""

    model_stats: list[CountedModel]


class IndexedModel(msgspec.Struct):
    """A model in the index of the repository."""

    name: str
    state: Literal["READY", "LOADING", "UNAVAILABLE"]
    version: str | None = None
    reason: str | None = None


class OutputTensor(msgspec.Struct):
    """An output tensor: its elements in `data`, or as bytes after the JSON."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None = None
    parameters: dict[str, Any] | None = None


class InferAnswer(msgspec.Struct):
    """The answer to an inference by tensors."""

    id: str
    model_name: str
    model_version: str
    outputs: list[OutputTensor]


class ModelReadiness(msgspec.Struct):
    """The readiness of a model."""

    name: str
    ready: bool


class Liveness(msgspec.Struct):
    """The liveness of the server."""

    live: bool


class Readiness(msgspec.Struct):
    """The readiness of the server."""

    ready: bool

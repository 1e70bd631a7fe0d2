"""Descriptions of models for the open inference protocol: their tensors by task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sluice.inference import inference_pb2, model_config_pb2

from service.contract.inference.requests import DOCUMENTS, MESSAGES, PROMPT, QUERY, RETURNS, TOOL_CALLS
from service.registry.description import ModelDescription, Task

EXTENSIONS: Final = (
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "statistics",
    "generate",
    "generate_stream",
)
_TYPES: Final = {
    "BOOL": model_config_pb2.TYPE_BOOL,
    "BYTES": model_config_pb2.TYPE_STRING,
    "FP32": model_config_pb2.TYPE_FP32,
    "UINT32": model_config_pb2.TYPE_UINT32,
}
_GENERATIVE: Final = frozenset({Task.CHAT, Task.COMPLETION})


class _Tensor(NamedTuple):
    """A tensor of a model, and whether requests may omit it."""

    name: str
    datatype: str
    shape: Sequence[int] = (1,)
    is_optional: bool = False


_OPTIONS: Final = (
    _Tensor("stream", "BOOL", is_optional=True),
    _Tensor("sampling_parameters", "BYTES", is_optional=True),
    _Tensor("exclude_input_in_output", "BOOL", is_optional=True),
    *(_Tensor(name, "BOOL", is_optional=True) for name in RETURNS.values()),
)
_TOOL_OPTIONS: Final = (_Tensor("tools", "BYTES", is_optional=True), _Tensor("tool_choice", "BYTES", is_optional=True))
_TEXT_OUTPUTS: Final = (
    _Tensor("text_output", "BYTES"),
    _Tensor("finish_reason", "BYTES"),
    _Tensor("num_input_tokens", "UINT32"),
    _Tensor("num_output_tokens", "UINT32"),
)


def _inputs(tasks: Sequence[Task]) -> Iterator[_Tensor]:
    """Yield the input tensors of all tasks; those of one task are optional if there are others."""
    has_several = len(tasks) > 1
    if Task.COMPLETION in tasks:
        yield _Tensor(PROMPT, "BYTES", is_optional=has_several)
    if Task.EMBEDDING in tasks:
        yield _Tensor(PROMPT, "BYTES", (-1,), has_several)
    if Task.CHAT in tasks:
        yield _Tensor(MESSAGES, "BYTES", is_optional=has_several)
        yield from _TOOL_OPTIONS
    if Task.RANK in tasks:
        yield _Tensor(QUERY, "BYTES", (-1,), has_several)
        yield _Tensor(DOCUMENTS, "BYTES", (-1,), has_several)
    if not _GENERATIVE.isdisjoint(tasks):
        yield from _OPTIONS


def _outputs(model: ModelDescription) -> Iterator[_Tensor]:
    """Yield the output tensors of all tasks."""
    if not _GENERATIVE.isdisjoint(model.tasks):
        yield from _TEXT_OUTPUTS
    if Task.CHAT in model.tasks:
        yield _Tensor(TOOL_CALLS, "BYTES")
    if Task.EMBEDDING in model.tasks:
        yield _Tensor("embeddings", "FP32", (-1, model.embedding_dimensions or -1))
    if Task.RANK in model.tasks:
        yield _Tensor("scores", "FP32", (-1,))


def metadata_message(model: ModelDescription) -> inference_pb2.ModelMetadataResponse:
    """Return the description of a model."""
    message = inference_pb2.ModelMetadataResponse(
        name=model.name, versions=[model.version] if model.version else [], platform=model.architecture
    )
    for tensor in _inputs(model.tasks):
        message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
    for tensor in _outputs(model):
        message.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
    return message


def config_message(model: ModelDescription) -> model_config_pb2.ModelConfig:
    """Return the configuration of a model."""
    message = model_config_pb2.ModelConfig(
        name=model.name,
        platform=model.architecture,
        backend="sluice",
        model_transaction_policy=model_config_pb2.ModelTransactionPolicy(
            decoupled=not _GENERATIVE.isdisjoint(model.tasks)
        ),
    )
    for tensor in _inputs(model.tasks):
        message.input.add(
            name=tensor.name, data_type=_TYPES[tensor.datatype], dims=tensor.shape, optional=tensor.is_optional
        )
    for tensor in _outputs(model):
        message.output.add(name=tensor.name, data_type=_TYPES[tensor.datatype], dims=tensor.shape)
    for name in ("max_model_len", "dtype", "vocab_size", "num_parameters"):
        message.parameters[name].string_value = str(getattr(model, name))
    message.parameters["system_fingerprint"].string_value = model.fingerprint
    return message

"""The body of `infer`: tensors as JSON, or as bytes after the JSON (Triton's extension for binary tensor data).

The header `inference-header-content-length` is the length of the JSON; a tensor's parameter `binary_data_size` is that
of its bytes, in the order of the tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import orjson
from msgspec import Meta
from sluice.inference import inference_pb2

from gateway.dialects.seam.failure import Failure, Reason

JSON_LENGTH: Final = "inference-header-content-length"
BINARY_SIZE: Final = "binary_data_size"
_BINARY_OUTPUT: Final = "binary_data_output"
_MAX_DEPTH: Final = 8
_MAX_INT64: Final = 2**63 - 1
# The field of InferTensorContents that has the elements of a type.
FIELDS: Final = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip

Size = Annotated[int, Meta(ge=0, le=_MAX_INT64)]
Parameters: TypeAlias = dict[str, Any]


class InferInput(msgspec.Struct, forbid_unknown_fields=True):
    """An input tensor: its elements in `data`, nested or flat, or as bytes after the JSON."""

    name: str
    shape: list[Size]
    datatype: str
    parameters: Parameters | None = None
    data: list[Any] | None = None


class InferOutput(msgspec.Struct, forbid_unknown_fields=True):
    """A requested output tensor. `binary_data` returns the elements as bytes after the JSON."""

    name: str
    parameters: Parameters | None = None


class InferBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `infer`. `model_name` and `model_version` must agree with the path, if KServe's client sends them."""

    inputs: list[InferInput]
    id: str | None = None
    model_name: str | None = None
    model_version: str | None = None
    parameters: Parameters | None = None
    outputs: list[InferOutput] | None = None

    def to_request(self, model: str, version: str, binary: bytes) -> inference_pb2.ModelInferRequest:
        """Return the protocol's message; `binary` follows the JSON. Raise Failure."""
        for name, value in (("model_name", model), ("model_version", version)):
            if getattr(self, name) and value and getattr(self, name) != value:
                raise Failure.of_field(name, f"must be {value!r}, as in the path")
        request = inference_pb2.ModelInferRequest(model_name=model, id=self.id or "")
        request.model_version = version or self.model_version or ""
        wants_binary = False
        for output in self.outputs or ():
            parameters = dict(output.parameters or {})
            wants_binary |= _flag(parameters, "binary_data", f'outputs["{output.name}"].parameters')
            _set_parameters(request.outputs.add(name=output.name).parameters, parameters)
        parameters = dict(self.parameters or {})
        wants_binary |= _flag(parameters, _BINARY_OUTPUT, "parameters")
        _set_parameters(request.parameters, parameters)
        request.parameters[_BINARY_OUTPUT].bool_param = wants_binary
        begin = 0
        for given in self.inputs:
            begin += _add_input(request, given, binary, begin)
        if begin != len(binary):
            raise Failure.of_field(JSON_LENGTH, f"{len(binary)} bytes follow the JSON, but the tensors have {begin}")
        return request


def _flag(parameters: Parameters, name: str, path: str) -> bool:
    """Remove a parameter that is true or false, and return its value; false without one. Raise Failure."""
    value = parameters.pop(name, None)
    if not isinstance(value, bool | None):
        raise Failure.of_field(f'{path}["{name}"]', "must be true or false", Reason.INVALID_TYPE)
    return bool(value)


def _add_input(request: inference_pb2.ModelInferRequest, given: InferInput, binary: bytes, begin: int) -> int:
    """Add a tensor to the request, and return the number of its bytes in `binary`. Raise Failure."""
    path = f'inputs["{given.name}"]'
    parameters = dict(given.parameters or {})
    size = parameters.pop(BINARY_SIZE, None)
    tensor = request.inputs.add(name=given.name, datatype=given.datatype, shape=given.shape)
    _set_parameters(tensor.parameters, parameters)
    if size is None:
        _set_elements(tensor, given, path)
        return 0
    if given.data is not None:
        raise Failure.of_field(path, f"must have either data or {BINARY_SIZE}")
    if type(size) is not int or not 0 <= size <= len(binary) - begin:
        text = f"{BINARY_SIZE} must be an integer from 0 to {len(binary) - begin}, the bytes that follow"
        raise Failure.of_field(path, text)
    request.raw_input_contents.append(binary[begin : begin + size])
    return size


def _set_elements(tensor: inference_pb2.ModelInferRequest.InferInputTensor, given: InferInput, path: str) -> None:
    """Set a tensor's elements from JSON. Raise Failure."""
    if given.data is None:
        raise Failure.of_field(path, f"must have data or {BINARY_SIZE}", Reason.MISSING_FIELD)
    if (field := FIELDS.get(given.datatype)) is None:
        raise Failure.of_field(path, f"the datatype must be one of {', '.join(FIELDS)}, not {given.datatype[:64]!r}")
    try:
        elements = [each.encode() if isinstance(each, str) else each for each in _flat(given.data, path, 1)]
        getattr(tensor.contents, field).extend(elements)
    except (TypeError, ValueError) as error:
        raise Failure.of_field(path, f"data must have elements of the type {given.datatype}") from error


def _flat(data: list[Any], path: str, depth: int) -> Iterator[Any]:
    """Yield the elements of a nested list in row-major order. Raise Failure."""
    if depth > _MAX_DEPTH:
        raise Failure.of_field(path, f"data must be nested at most {_MAX_DEPTH} times")
    for each in data:
        if isinstance(each, list):
            yield from _flat(each, path, depth + 1)
        else:
            yield each


def _set_parameters(target: Any, parameters: Mapping[str, Any]) -> None:
    """Set parameters of the protocol; lists and objects become JSON texts, and null is ignored. Raise Failure."""
    for name, value in parameters.items():
        match value:
            case None:
                continue
            case bool():
                target[name].bool_param = value
            case int() if -_MAX_INT64 <= value <= _MAX_INT64:
                target[name].int64_param = value
            case int() if 0 <= value <= 2 * _MAX_INT64 + 1:
                target[name].uint64_param = value
            case int():
                raise Failure.of_field(f'parameters["{name}"]', "must be an integer of 64 bits")
            case float():
                target[name].double_param = value
            case str():
                target[name].string_param = value
            case _:
                target[name].string_param = orjson.dumps(value).decode()

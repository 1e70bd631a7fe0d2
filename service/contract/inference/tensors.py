"""Read the input tensors of requests, and write the output tensors of responses.

A tensor's elements are in the field of their type (`contents`) or packed as bytes (`raw_input_contents`,
`raw_output_contents`). The response has packed elements if the request has some, or as its parameter
`binary_data_output` says.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from sluice.inference import inference_pb2

from service.generation.errors import InvalidRequest

BYTES: Final = "BYTES"
BINARY_OUTPUT: Final = "binary_data_output"  # the parameter that selects the form of a response's elements
_MAX_TENSORS: Final = 32
_MAX_DIMENSIONS: Final = 8
_MAX_ELEMENTS: Final = 2048  # as many as the contract has texts; elements are read on the event loop
_LENGTH: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class _Datatype:
    """The field of a type's elements in InferTensorContents, and the format of `struct` for its raw elements."""

    field: str
    format: str


_DATATYPES: Final = {
    "BOOL": _Datatype("bool_contents", "?"),
    "INT8": _Datatype("int_contents", "b"),
    "INT16": _Datatype("int_contents", "h"),
    "INT32": _Datatype("int_contents", "i"),
    "INT64": _Datatype("int64_contents", "q"),
    "UINT8": _Datatype("uint_contents", "B"),
    "UINT16": _Datatype("uint_contents", "H"),
    "UINT32": _Datatype("uint_contents", "I"),
    "UINT64": _Datatype("uint64_contents", "Q"),
    "FP32": _Datatype("fp32_contents", "f"),
    "FP64": _Datatype("fp64_contents", "d"),
    BYTES: _Datatype("bytes_contents", ""),
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor with its elements in row-major order; those of the type BYTES are byte strings."""

    name: str
    datatype: str
    shape: Sequence[int]
    elements: Sequence[Any]

    @property
    def path(self) -> str:
        """The tensor's path in the request, for errors."""
        return tensor_path(self.name)

    @property
    def texts(self) -> list[str]:
        """The elements as texts. Raise InvalidRequest unless they are UTF-8."""
        if self.datatype != BYTES:
            raise InvalidRequest(self.path, f"must have the datatype BYTES, not {self.datatype}")
        try:
            return [element.decode() for element in self.elements]
        except UnicodeDecodeError:
            raise InvalidRequest(self.path, "must be UTF-8") from None

    @property
    def text(self) -> str:
        """The only element as text. Raise InvalidRequest if there is another number of them."""
        return self.texts[0] if self.scalar is not None else ""

    @property
    def scalar(self) -> Any:
        """The only element. Raise InvalidRequest if there is another number of them."""
        if len(self.elements) != 1:
            raise InvalidRequest(self.path, f"must have one element, not {len(self.elements)}")
        return self.elements[0]


def tensor_path(name: str) -> str:
    """Return the path of an input tensor in its request."""
    return f'inputs["{name}"]'


def read_tensors(request: inference_pb2.ModelInferRequest) -> dict[str, Tensor]:
    """Return the input tensors by name. Raise InvalidRequest, which names the tensor."""
    if len(request.inputs) > _MAX_TENSORS:
        raise InvalidRequest("inputs", f"must have at most {_MAX_TENSORS} tensors, not {len(request.inputs)}")
    num_raw = sum(not given.HasField("contents") for given in request.inputs) if request.raw_input_contents else 0
    if num_raw != len(request.raw_input_contents):
        text = (
            f"must have one element for each tensor without contents, {num_raw}, not {len(request.raw_input_contents)}"
        )
        raise InvalidRequest("raw_input_contents", text)
    raw = iter(request.raw_input_contents)
    found: dict[str, Tensor] = {}
    for given in request.inputs:
        if given.name in found:
            raise InvalidRequest(tensor_path(given.name), "occurs twice")
        found[given.name] = _read(given, None if given.HasField("contents") else next(raw, None))
    return found


def _read(given: inference_pb2.ModelInferRequest.InferInputTensor, raw: bytes | None) -> Tensor:
    """Return a tensor whose elements are as many as its shape says."""
    path = tensor_path(given.name)
    if any(name.startswith("shared_memory") for name in given.parameters):
        raise InvalidRequest(path, "shared memory is not supported; send the elements")
    if (datatype := _DATATYPES.get(given.datatype)) is None:
        raise InvalidRequest(path, f"the datatype must be one of {', '.join(_DATATYPES)}, not {given.datatype!r}")
    if len(given.shape) > _MAX_DIMENSIONS or any(size < 0 for size in given.shape):
        raise InvalidRequest(path, f"the shape must have at most {_MAX_DIMENSIONS} dimensions, none of them negative")
    if (size := prod(given.shape)) > _MAX_ELEMENTS:
        raise InvalidRequest(path, f"must have at most {_MAX_ELEMENTS} elements, not {size}")
    elements = getattr(given.contents, datatype.field) if raw is None else _unpack(raw, datatype, size, path)
    if len(elements) != size:
        text = f"the shape {list(given.shape)} has {size} elements, but the tensor has another number of them"
        raise InvalidRequest(path, text)
    return Tensor(given.name, given.datatype, tuple(given.shape), elements)


def _unpack(raw: bytes, datatype: _Datatype, size: int, path: str) -> Sequence[Any]:
    """Return the elements of a tensor's bytes, at most one more than `size`. Raise InvalidRequest for other bytes."""
    if not datatype.format:
        return list(itertools.islice(_byte_strings(raw, path), size + 1))
    form = struct.Struct(f"<{size}{datatype.format}")
    if len(raw) != form.size:
        raise InvalidRequest(path, f"must have {form.size} bytes for {size} elements, not {len(raw)}")
    return form.unpack(raw)


def _byte_strings(raw: bytes, path: str) -> Iterator[bytes]:
    """Yield byte strings, each of which follows its length."""
    at = 0
    while at < len(raw):
        begin = at + _LENGTH.size
        end = begin + _LENGTH.unpack_from(raw, at)[0] if begin <= len(raw) else begin
        if end > len(raw):
            raise InvalidRequest(path, f"the element at byte {at} exceeds the tensor's {len(raw)} bytes")
        yield raw[begin:end]
        at = end


class TensorWriter:
    """Writes the output tensors of one request's responses."""

    def __init__(self, request: inference_pb2.ModelInferRequest) -> None:
        is_raw = bool(request.raw_input_contents)
        wanted = request.parameters.get(BINARY_OUTPUT)
        self._is_raw = is_raw if wanted is None else wanted.bool_param

    def write(self, response: inference_pb2.ModelInferResponse, tensor: Tensor) -> None:
        """Add a tensor to a response."""
        datatype = _DATATYPES[tensor.datatype]
        output = response.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        if not self._is_raw:
            getattr(output.contents, datatype.field).extend(tensor.elements)
        elif datatype.format:
            response.raw_output_contents.append(
                struct.pack(f"<{len(tensor.elements)}{datatype.format}", *tensor.elements)
            )
        else:
            response.raw_output_contents.append(b"".join(_LENGTH.pack(len(each)) + each for each in tensor.elements))

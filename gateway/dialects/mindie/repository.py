"""Requests to list, load and unload models of the repository, in the form of Triton's clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from sluice.inference import inference_pb2

from gateway.dialects.seam.contract_limit import check_values
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode

DONE: Final = b"{}"
_INT64: Final = range(-(2**63), 2**63)
Value: TypeAlias = bool | int | float | str


class RepositoryBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request to load or unload a model."""

    parameters: dict[str, Value] | None = None


class IndexBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request to list models. `ready` omits those that accept no requests."""

    ready: bool | None = None


class RepositoryAnswer(msgspec.Struct):
    """The empty answer: the model is loaded, or unloaded."""


RepositoryRequest: TypeAlias = inference_pb2.RepositoryModelLoadRequest | inference_pb2.RepositoryModelUnloadRequest


@dataclass(frozen=True, slots=True)
class ParsedIndex:
    """A parsed request for the list of models."""

    request: inference_pb2.RepositoryIndexRequest
    caller_name: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class ParsedChange:
    """A parsed request. Errors name parameters as the contract does."""

    request: RepositoryRequest
    caller_name: Callable[[str], str] = str


_DECODER: Final = msgspec.json.Decoder(RepositoryBody)
_INDEX_DECODER: Final = msgspec.json.Decoder(IndexBody)


def parse_index(http_request: HttpRequest) -> ParsedIndex:
    """Parse a request for the list of models; its body may be empty. Raise Failure."""
    is_ready = decode(http_request.body, _INDEX_DECODER).ready if http_request.body else None
    return ParsedIndex(inference_pb2.RepositoryIndexRequest(ready=bool(is_ready)))


def parse_load(http_request: HttpRequest) -> ParsedChange:
    """Parse a request to load the model in the path. Raise Failure."""
    return _parse(http_request, inference_pb2.RepositoryModelLoadRequest())


def parse_unload(http_request: HttpRequest) -> ParsedChange:
    """Parse a request to unload the model in the path. Raise Failure."""
    return _parse(http_request, inference_pb2.RepositoryModelUnloadRequest())


def _parse(http_request: HttpRequest, request: RepositoryRequest) -> ParsedChange:
    """Set the fields of a request. Triton's clients may send no body at all."""
    request.model_name = http_request.path["model"]
    parameters = decode(http_request.body, _DECODER).parameters if http_request.body else None
    for name, value in (parameters or {}).items():
        _set(request.parameters[name], name, value)
    check_values(request, str)
    return ParsedChange(request)


def _set(parameter: inference_pb2.ModelRepositoryParameter, name: str, value: Value) -> None:
    """Set a parameter's value. The contract has no fractions: they are texts."""
    match value:
        case bool():
            parameter.bool_param = value
        case int():
            if value not in _INT64:
                raise Failure.of_field(f'parameters["{name}"]', "must be a 64-bit integer", Reason.INVALID_TYPE)
            parameter.int64_param = value
        case float():
            parameter.string_param = repr(value)
        case str():
            parameter.string_param = value

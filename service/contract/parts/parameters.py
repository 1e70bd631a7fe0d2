"""Copy parameters between messages and values by the table in `service.generation.requests.parameters`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final, TypeVar

from buf.validate import validate_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from sluice.v1 import logprobs_pb2, sampling_pb2

from service.generation.requests.parameters import (
    LogprobsOptions,
    Range,
    Ranges,
    SamplingParams,
    StopParams,
    Trait,
    parameters_with,
)

_Params = TypeVar("_Params", SamplingParams, StopParams)

_RULES: Final = {FieldDescriptor.TYPE_FLOAT: "float", FieldDescriptor.TYPE_UINT32: "uint32"}
_BOUNDS: Final = {"gte": "at_least", "gt": "above", "lte": "at_most", "lt": "below"}


def to_sampling(message: sampling_pb2.SamplingParams) -> SamplingParams:
    """Return the parameters in the message, with defaults for those that are not set."""
    return _to_values(message, SamplingParams)


def given_sampling(message: sampling_pb2.SamplingParams) -> frozenset[str]:
    """Return the names of the parameters that the message sets."""
    return frozenset(field.name for field, _ in message.ListFields())


def to_stopping(message: sampling_pb2.StopParams) -> StopParams:
    """Return the parameters in the message, with defaults for those that are not set."""
    return _to_values(message, StopParams)


def to_logprobs(request: Any, field: str = "logprobs") -> LogprobsOptions | None:
    """Return the log probability options in `field` of a request; None if it is not set."""
    given: logprobs_pb2.LogprobsOptions = getattr(request, field)
    return LogprobsOptions(given.top_logprobs, tuple(given.token_ids)) if request.HasField(field) else None


def sampling_message(params: SamplingParams) -> sampling_pb2.SamplingParams:
    """Return the message with all parameters that have a value, including defaults."""
    return _to_message(params, sampling_pb2.SamplingParams())


def stopping_message(params: StopParams) -> sampling_pb2.StopParams:
    """Return the message with all parameters that have a value, including defaults."""
    return _to_message(params, sampling_pb2.StopParams())


def _to_values(message: Message, kind: type[_Params]) -> _Params:
    """Return the message's fields as values of `kind`; omitted ones have their defaults."""
    given: dict[str, Any] = {}
    counts = parameters_with(Trait.COUNT, kind)
    for field, value in message.ListFields():
        if field.is_repeated:
            given[field.name] = dict(value) if field.message_type is not None else tuple(value)
        elif field.name in counts:
            given[field.name] = value or None
        else:
            given[field.name] = value
    return kind(**given)


_MessageT = TypeVar("_MessageT", bound=Message)


def _to_message(params: SamplingParams | StopParams, message: _MessageT) -> _MessageT:
    """Copy values to the fields of `message` with the same names, and return it."""
    for field in fields(params):
        value = getattr(params, field.name)
        descriptor = message.DESCRIPTOR.fields_by_name[field.name]
        if descriptor.is_repeated:
            container = getattr(message, field.name)
            container.update(value) if descriptor.message_type is not None else container.extend(value)
        elif value is not None:
            setattr(message, field.name, value)
    return message


def _ranges(descriptor: Any, prefix: str) -> Iterator[tuple[str, Range]]:
    """Yield the ranges that a message's rules allow, by the field's path."""
    for field in descriptor.fields:
        if field.is_repeated or field.type not in _RULES:
            continue
        rules = getattr(field.GetOptions().Extensions[validate_pb2.field], _RULES[field.type])
        bounds = {_BOUNDS[name]: getattr(rules, name) for name in _BOUNDS if rules.HasField(name)}
        if field.type == FieldDescriptor.TYPE_UINT32:
            bounds.setdefault("at_least", 0)
        yield f"{prefix}.{field.name}", Range(**bounds)


# The contract's ranges of single numbers by path, for the engine's own checks.
RANGES: Final[Ranges] = {
    **dict(_ranges(sampling_pb2.SamplingParams.DESCRIPTOR, "sampling")),
    **dict(_ranges(sampling_pb2.StopParams.DESCRIPTOR, "stopping")),
    **dict(_ranges(logprobs_pb2.LogprobsOptions.DESCRIPTOR, "logprobs")),
}

"""Parameters of an inference: values by name, set in the fields of that name in messages of `sluice.v1`.

A parameter is given in the request's `parameters`, as an input tensor of one element, or in the JSON object
`sampling_parameters`, as clients of Triton's backend for vLLM send it. There, numbers may be texts.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from sluice.inference import inference_pb2

from process.settings.names import suggestion
from service.contract.inference.tensors import BINARY_OUTPUT, BYTES, Tensor
from service.generation.errors import InvalidRequest, UnsupportedFeature

_ALIASES: Final = {"max_new_tokens": "max_tokens"}
_IGNORED: Final = frozenset({"batch_size", BINARY_OUTPUT, "triton_enable_empty_final_response"})
_STATEFUL: Final = frozenset({"sequence_id", "sequence_start", "sequence_end"})
_SAMPLING: Final = "sampling_parameters"
_MAX_JSON: Final = 65_536  # characters of a parameter that is JSON
_MAX_SHOWN: Final = 64  # characters of a value in errors
_LEAST_PRIORITY: Final = 5  # of priorities from 1; in the contract it is 0, and lower values are served first in both
Target: TypeAlias = tuple[Message, Sequence[str] | None]

_FLOATS: Final = frozenset({FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE})


@dataclass(frozen=True, slots=True)
class Given:
    """A parameter's value, and its path in the request, for errors."""

    value: Any
    path: str

    def rejected(self, text: str) -> InvalidRequest:
        """Return the error for this value."""
        shown = self.value[:_MAX_SHOWN] if isinstance(self.value, str) else self.value
        return InvalidRequest(self.path, f"{text}, not {json.dumps(shown, default=repr)[:_MAX_SHOWN]}")


class Parameters:
    """The parameters of one request that have not been taken yet."""

    def __init__(self, request: inference_pb2.ModelInferRequest, tensors: Mapping[str, Tensor]) -> None:
        """Collect the parameters of a request; `tensors` are those of its inputs that hold parameters.

        Raise InvalidRequest.
        """
        self._given: dict[str, Given] = {}
        for name, choice in request.parameters.items():
            kind = choice.WhichOneof("parameter_choice")
            self._add(name, Given(getattr(choice, kind) if kind else None, f'parameters["{name}"]'))
        for name, tensor in tensors.items():
            self._add(name, Given(tensor.text if tensor.datatype == BYTES else tensor.scalar, tensor.path))
        if (sampling := self._given.pop(_SAMPLING, None)) is not None:
            for name, value in _json_object(sampling).items():
                self._add(name, Given(value, f"{sampling.path}.{name}"))
        for name in _IGNORED:
            self._given.pop(name, None)

    def _add(self, name: str, given: Given) -> None:
        """Add a parameter. Raise InvalidRequest if it occurs twice."""
        name = _ALIASES.get(name, name)
        if name in _STATEFUL:
            raise UnsupportedFeature(given.path, "models keep no state between requests; send the whole prompt")
        if name in self._given:
            raise InvalidRequest(given.path, f"is given twice, also as {self._given[name].path}")
        self._given[name] = given

    def flag(self, name: str) -> bool | None:
        """Take a truth value; None if it is not given. Raise InvalidRequest."""
        given = self._given.pop(name, None)
        return None if given is None else _to_bool(given)

    def take(self, name: str) -> Given | None:
        """Take a parameter as it is; None if it is not given."""
        return self._given.pop(name, None)

    def timeout_s(self) -> float | None:
        """Take Triton's `timeout`, which is in microseconds; None if it is not given or 0. Raise InvalidRequest."""
        if (given := self._given.pop("timeout", None)) is None:
            return None
        if (timeout_us := _to_number(given)) < 0:
            raise given.rejected("must be a number of microseconds")
        return timeout_us / 1e6 or None

    def priority(self) -> int | None:
        """Take Triton's `priority` in the contract's numbers; None if it is not given or 0. Raise InvalidRequest."""
        given = self._given.pop("priority", None)
        priority = 0 if given is None else _to_integer(given)
        return priority - _LEAST_PRIORITY if priority else None

    def has(self, *names: str) -> bool:
        """Return whether any of these parameters is given."""
        return not self._given.keys().isdisjoint(names)

    def set_in(self, *targets: Target) -> dict[str, str]:
        """Set the parameters by `set_fields`, and return the path of each one by name. Raise InvalidRequest."""
        set_fields(self._given, targets)
        return {name: given.path for name, given in self._given.items()}


def set_fields(values: Mapping[str, Given], targets: Sequence[Target]) -> None:
    """Set each value in the first target that has a field of its name.

    A target is a message with the names of the fields that may be set, or None for all of them. Raise InvalidRequest
    for an unknown name, and for a value of another type or range.
    """
    fields: dict[str, tuple[Message, Any]] = {}
    for message, names in reversed(targets):
        for field in message.DESCRIPTOR.fields:
            if names is None or field.name in names:
                fields[field.name] = (message, field)
    for name, given in values.items():
        if name not in fields:
            raise InvalidRequest(given.path, "unknown parameter" + suggestion(name[:_MAX_SHOWN], fields))
        _set(*fields[name], given)


def _set(message: Message, field: FieldDescriptor, given: Given) -> None:
    """Set one field of a message. Raise InvalidRequest for a value of another type or range."""
    try:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            pairs = {int(key): float(value) for key, value in _json_object(given).items()}
            getattr(message, field.name).update(pairs)
        elif field.is_repeated:
            getattr(message, field.name).extend(_to_list(given))
        elif field.type == FieldDescriptor.TYPE_BOOL:
            setattr(message, field.name, _to_bool(given))
        elif field.type in _FLOATS:
            setattr(message, field.name, _to_number(given))
        elif field.type == FieldDescriptor.TYPE_STRING:
            setattr(message, field.name, given.value)
        else:
            setattr(message, field.name, _to_integer(given))
    except (TypeError, ValueError) as error:
        raise given.rejected("has a wrong type or is out of range") from error


def _to_bool(given: Given) -> bool:
    found = {"true": True, "false": False, "1": True, "0": False}.get(str(given.value).lower())
    if found is None:
        raise given.rejected("must be true or false")
    return found


def _to_number(given: Given) -> float:
    try:
        if not isinstance(given.value, bool):
            return float(given.value)
    except (TypeError, ValueError):
        pass
    raise given.rejected("must be a number")


def _to_integer(given: Given) -> int:
    value = given.value
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        number = int(value)
        if not isinstance(value, bool) and (isinstance(value, str) or number == value):
            return number
    raise given.rejected("must be an integer")


def _to_list(given: Given) -> list[Any]:
    """Return a list given as such, as its JSON text, or as its only text."""
    if isinstance(given.value, str):
        is_list = given.value.startswith("[") and len(given.value) <= _MAX_JSON
        try:
            value = json.loads(given.value) if is_list else given.value
        except ValueError:
            value = given.value
        return value if isinstance(value, list) else [given.value]
    return list(given.value)


def _json_object(given: Given) -> dict[str, Any]:
    """Return a JSON object given as such or as its text. Raise InvalidRequest."""
    if isinstance(given.value, str) and len(given.value) > _MAX_JSON:
        raise InvalidRequest(given.path, f"must have at most {_MAX_JSON} characters, not {len(given.value)}")
    try:
        value = json.loads(given.value) if isinstance(given.value, str) else given.value
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(given.path, "must be a JSON object") from error
    if not isinstance(value, dict):
        raise InvalidRequest(given.path, "must be a JSON object")
    return value

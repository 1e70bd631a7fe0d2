"""Databricks' limits on the number of functions and of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.json_body import is_given

_MAX_TOOLS: Final = 32
_MAX_PROPERTIES: Final = 15


class _Parameters(msgspec.Struct):
    """The counted part of a function's JSON Schema."""

    properties: dict[str, msgspec.Raw] = {}


_PARAMETERS: Final = msgspec.json.Decoder(_Parameters)


def check_tools(parameters: Sequence[tuple[str, msgspec.Raw]]) -> None:
    """Raise Failure if there are more functions, or more parameters of one, than the documented limits.

    `parameters` has the caller's path and the JSON Schema of each function.
    """
    if len(parameters) > _MAX_TOOLS:
        raise Failure.of_field("tools", f"must have at most {_MAX_TOOLS} items")
    for path, schema in parameters:
        if _num_properties(schema) > _MAX_PROPERTIES:
            raise Failure.of_field(f"{path}.properties", f"must have at most {_MAX_PROPERTIES} keys")


def _num_properties(schema: msgspec.Raw) -> int:
    """Return the number of top-level properties; 0 for an invalid schema, which the service reports."""
    if not is_given(schema):
        return 0
    try:
        return len(_PARAMETERS.decode(schema).properties)
    except msgspec.ValidationError:
        return 0

"""JSON that callers sent as text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from service.generation.errors import InvalidRequest

_MAX_DEPTH = 100
_TOO_DEEP = f"nested more than {_MAX_DEPTH} levels deep"
_NO_PARAMETERS = {"type": "object", "properties": {}}


def parse_json(text: str, field: str) -> Any:
    """The value of a JSON text. Raises InvalidRequest naming `field`, with line and column."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequest(field, f"not valid JSON: {error.msg} in {place}") from error
    except ValueError as error:
        raise InvalidRequest(field, f"not valid JSON: {error}") from error
    except RecursionError as error:
        raise InvalidRequest(field, _TOO_DEEP) from error
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
    if level:
        raise InvalidRequest(field, _TOO_DEEP)
    return value


def parse_parameters(text: str, field: str) -> dict[str, Any]:
    """A function's schema; that of no parameters if `text` is empty. Raises InvalidRequest naming `field`."""
    if not text:
        return dict(_NO_PARAMETERS)
    schema = parse_json(text, field)
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise InvalidRequest(field, "the parameters must be a JSON Schema of type object")
    return schema


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value")

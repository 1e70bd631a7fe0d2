"""Grammar rules of values in Python's syntax: strings in single or double quotes, and `True`, `False` and `None`.

The rules describe types, `properties`, `items`, `enum`, `const`, `anyOf`, lengths and patterns. A schema with anything
else has no such rules; its values are written as JSON, which Python's readers of literals accept, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from service.constraints.lark import quote
from service.constraints.member_list import Member, member_list
from service.constraints.text_terminal import can_match, length_bounds, text_terminal
from service.output.calls.argument_value import allowed_types, resolved
from service.output.families.tool_syntax import Schema

_MAX_DEPTH: Final = 16  # of nested schemas; deeper ones are written as JSON
_MAX_ITEMS: Final = 1_000  # of a list, if their number is limited
_ANYTHING: Final[Schema] = {}
_KEY: Final[Schema] = {"type": "string"}
_CHARACTER: Final = r"[^'\\\x00-\x1f]"  # of a string in single quotes
_ESCAPED: Final = r"\\['\x22\\nrt]"
_DAY: Final = (  # of a month, without the 29th of February
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
)
_DATE: Final = f"[0-9]{{4}}-{_DAY}"
_TIME: Final = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_ZONE: Final = r"(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_FORMATS: Final = {  # formats of strings in single quotes; strings of other formats are written in double quotes
    "date": _DATE,
    "date-time": f"{_DATE}T{_TIME}{_ZONE}",
    "time": f"{_TIME}{_ZONE}",
    "uuid": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
}
_CONSTANTS: Final = {"boolean": '("True" | "False" | "true" | "false")', "null": '("None" | "null")'}
_TYPES: Final = {str: "string", bool: "boolean", type(None): "null"}
_COMMA, _COLON = '"," " "?', '":" " "?'
_ANNOTATIONS: Final = frozenset(
    {"$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description", "examples",
     "readOnly", "title", "writeOnly"}
)  # fmt: skip
_OF_NUMBERS: Final = frozenset({"exclusiveMaximum", "exclusiveMinimum", "format", "maximum", "minimum", "multipleOf"})
_KEYWORDS: Final[Mapping[str, frozenset[str]]] = {
    "array": frozenset({"items", "maxItems", "minItems"}),
    "boolean": frozenset(),
    "integer": _OF_NUMBERS,
    "null": frozenset(),
    "number": _OF_NUMBERS,
    "object": frozenset({"additionalProperties", "properties", "required"}),
    "string": frozenset({"format", "maxLength", "minLength", "pattern"}),
}


class JsonRule(NamedTuple):
    """The name of a rule for a JSON value, with the value's schema and its path."""

    name: str
    path: str
    schema: Any


class UndescribedError(Exception):
    """The schema has no rules in Python's syntax."""


class PythonValues:
    """The rules of a function's values: `lines`, and those of the JSON values in them, `json`."""

    def __init__(self, prefix: str, root: Schema) -> None:
        """`prefix` begins the names of all rules; `root` has the schemas that others refer to."""
        self.lines: list[str] = []
        self.json: list[JsonRule] = []
        self._prefix = prefix
        self._root = root
        self._open: list[int] = []  # the ids of the schemas that the current one is an alternative of
        self._names: dict[int, str] = {}  # of the rules, by the ids of their schemas
        self._kept: list[Any] = []  # the schemas with these ids
        self._scalars: dict[str, str] = {}  # the bodies of rules for strings and numbers, by their schemas' text

    def rule(self, schema: Any, path: str) -> str:
        """Return the name of the rule for values of the schema at `path`.

        Raise UndescribedError; the lines are then unchanged.
        """
        num_lines, num_json = len(self.lines), len(self.json)
        names, scalars = dict(self._names), dict(self._scalars)
        try:
            return self._rule(schema, path, 0)
        except UndescribedError:
            del self.lines[num_lines:], self.json[num_json:]
            self._names, self._scalars, self._open = names, scalars, []
            raise

    def _rule(self, schema: Any, path: str, depth: int) -> str:
        """Return the name of a schema's rule, which is added if it is new."""
        schema = resolved(schema, self._root)
        schema = _ANYTHING if schema is True or schema == _ANYTHING else schema
        if depth > _MAX_DEPTH or id(schema) in self._open:
            raise UndescribedError
        if (name := self._names.get(id(schema))) is not None:
            return name
        name = self._names[id(schema)] = f"{self._prefix}_{len(self._names)}"
        self._kept.append(schema)
        self.lines.append(f"{name}: {' | '.join(self._alternatives(name, schema, path, depth))}")
        return name

    def _alternatives(self, name: str, schema: Any, path: str, depth: int) -> list[str]:
        """Return the alternatives of a schema's rule."""
        if schema is _ANYTHING:
            return [self._one_of_type(name, kind, schema, path, depth) for kind in _KEYWORDS if kind != "integer"]
        if not isinstance(schema, Mapping):
            raise UndescribedError
        keywords = schema.keys() - _ANNOTATIONS
        if not keywords:
            return [self._rule(_ANYTHING, path, depth)]
        if keywords in ({"enum"}, {"const"}, {"enum", "type"}, {"const", "type"}):
            return [self._json_rule(f"{name}_json", path, schema), *self._listed_values(schema)]
        if keywords == {"anyOf"} and isinstance(schema["anyOf"], list):
            self._open.append(id(schema))
            rules = [self._rule(each, f"{path}.anyOf.{i}", depth + 1) for i, each in enumerate(schema["anyOf"])]
            self._open.pop()
            return rules
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if not kinds or not all(isinstance(kind, str) and kind in _KEYWORDS for kind in kinds):
            raise UndescribedError
        if any(keywords - _KEYWORDS[kind] - {"type"} for kind in kinds):
            raise UndescribedError
        return [self._one_of_type(name, kind, schema, path, depth) for kind in dict.fromkeys(kinds)]

    def _json_rule(self, name: str, path: str, schema: Any) -> str:
        """Add a rule for a value that is written as JSON; return its name."""
        self.json.append(JsonRule(name, path, schema))
        return name

    def _listed_values(self, schema: Mapping[str, Any]) -> Iterable[str]:
        """Yield the values that JSON writes differently."""
        listed = [schema["const"]] if "const" in schema else schema["enum"]
        types = allowed_types(schema, self._root)
        if not isinstance(listed, list):
            raise UndescribedError
        for value in listed:
            if isinstance(value, list | Mapping):
                raise UndescribedError
            if _TYPES.get(type(value)) in types:
                yield quote(repr(value))

    def _one_of_type(self, name: str, kind: str, schema: Mapping[str, Any], path: str, depth: int) -> str:
        """Return the body of the rule for the values of one type that a schema allows."""
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in {"array", "object"}:
            outer, self._open = self._open, []
            body = (self._array if kind == "array" else self._object)(name, schema, path, depth)
            self._open = outer
            return body
        scalar = {word: value for word, value in schema.items() if word in _KEYWORDS[kind]} | {"type": kind}
        text = json.dumps(scalar, sort_keys=True)
        if text not in self._scalars:
            path = path if isinstance(schema.get("type"), str) else f"{path}.{kind}"
            as_json = self._json_rule(f"{name}_{kind}", path, scalar)
            quoted = self._quoted(name, scalar) if kind == "string" else ()
            self._scalars[text] = " | ".join([as_json, *quoted])
        return self._scalars[text]

    def _quoted(self, name: str, schema: Mapping[str, Any]) -> Iterable[str]:
        """Yield the terminal of a string in single quotes, unless the schema can't be enforced in it."""
        terminal, kind = f"{name}_text".upper(), schema.get("format")
        if kind is not None and kind not in _FORMATS:
            return
        text = rf"/({_CHARACTER}|{_ESCAPED}){length_bounds(schema) or '*'}/"
        if "pattern" in schema:
            text = f"/{_CHARACTER}*/ & {text_terminal(schema)}"
        if kind is not None:
            text = f"{text} & /{_FORMATS[kind]}/"
        if len(schema) == 1 or can_match(text):  # a string without limits does
            self.lines += [f"{terminal}_INNER: {text}", f'{terminal}: "\'" {terminal}_INNER "\'"']
            yield terminal

    def _array(self, name: str, schema: Mapping[str, Any], path: str, depth: int) -> str:
        """Return the body of the rule of a list."""
        least, most = schema.get("minItems", 0), schema.get("maxItems", _MAX_ITEMS)
        if not isinstance(least, int) or not isinstance(most, int) or not 0 <= least <= most <= _MAX_ITEMS:
            raise UndescribedError
        item = self._rule(schema.get("items", _ANYTHING), f"{path}.items", depth + 1)
        most = f"{most - 1}" if "maxItems" in schema else ""
        self.lines.append(f"{name}_items: {item} ({_COMMA} {item}){{{max(least - 1, 0)},{most}}}")
        empty = ['"[]"'] if least == 0 else []
        return " | ".join([*empty, *([f'"[" {name}_items "]"'] if most != "-1" else [])])

    def _object(self, name: str, schema: Mapping[str, Any], path: str, depth: int) -> str:
        """Return the body of the rule of an object."""
        properties, required = schema.get("properties") or {}, schema.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            raise UndescribedError
        if not all(isinstance(key, str) and key in properties for key in required):
            raise UndescribedError
        others = schema.get("additionalProperties", not properties)
        if properties:
            if others is not False:
                raise UndescribedError
            members = []
            for key, each in properties.items():
                value = self._rule(each, f"{path}.properties.{key}", depth + 1)
                written = f"({quote(json.dumps(key))} | {quote(repr(key))})"
                members.append(Member(f"{written} {_COLON} {value}", key in required))
            self.lines += member_list(f"{name}_members", members, _COMMA)
            return f'"{{" {name}_members "}}"'
        if others is False:
            return '"{}"'
        key = self._rule(_KEY, f"{path}.propertyNames", depth + 1)
        value = self._rule(others, f"{path}.additionalProperties", depth + 1)
        self.lines.append(f"{name}_entry: {key} {_COLON} {value}")
        return f'"{{}}" | "{{" {name}_entry ({_COMMA} {name}_entry)* "}}"'

"""Output formats under the field names of other servers.

vLLM's `structured_outputs` and its older `guided_…`, SGLang's `regex`, `json_schema` and `ebnf`, TGI's kinds of
`response_format`. A request has at most one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec
from sluice.v1 import sampling_pb2

from gateway.dialects.openai_family.parameters.response_format import (
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedSchema,
    TextFormat,
)
from gateway.dialects.seam.contract_limit import check_length
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import is_given

_NAME: Final = "schema"  # the name of a schema without one
_MISSING: Final = "Object missing required field `json_schema`"  # the text of the decoder's error
_TWICE: Final = "Has both json_schema and value; give only one of them"
_FIELD_PATHS: Final = {  # paths of the contract's constraint that stand for the caller's field itself
    "json_object": "json_object",
    "json_schema.schema": "json_schema",
    "json_schema": "json_schema",
    "regex": "regex",
    "grammar": "grammar",
    "choice.texts": "choice",
    "choice": "choice",
}
_UNAVAILABLE: Final = {
    "structural_tag": "structural tags are not available",
    "whitespace_pattern": "the white space between parts of JSON is the server's",
    "disable_any_whitespace": "the white space between parts of JSON is the server's",
    "disable_additional_properties": "say additionalProperties: false in the schema",
}


class ValuedJsonObjectFormat(JsonObjectFormat, tag_field="type", tag="json_object", kw_only=True):
    """Any JSON object, or with a schema in `value`, as in TGI, JSON that matches it."""

    value: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class ValueSchema(msgspec.Struct, forbid_unknown_fields=True):
    """TGI's JSON Schema, whose name may be missing."""

    schema: msgspec.Raw
    name: str | None = None


class ValuedJsonSchemaFormat(JsonSchemaFormat, tag_field="type", tag="json_schema", kw_only=True):
    """JSON that matches a schema: in `json_schema`, or in `value`, as in TGI."""

    json_schema: NamedSchema = msgspec.field(default_factory=lambda: NamedSchema(""))
    value: ValueSchema | None = None

    def __post_init__(self) -> None:
        """Copy TGI's schema to the field that all formats of the family have."""
        is_named = bool(self.json_schema.name) or is_given(self.json_schema.schema)
        if self.value is not None:
            if is_named:
                raise ValueError(_TWICE)
            self.json_schema = NamedSchema(self.value.name or _NAME, schema=self.value.schema)
        elif not is_named:
            raise ValueError(_MISSING)


class JsonFormat(msgspec.Struct, tag_field="type", tag="json", forbid_unknown_fields=True):
    """TGI's format for JSON that matches a schema."""

    value: msgspec.Raw


class RegexFormat(msgspec.Struct, tag_field="type", tag="regex", forbid_unknown_fields=True):
    """TGI's format for a text that matches a regular expression."""

    value: str


AnyFormat: TypeAlias = TextFormat | ValuedJsonObjectFormat | ValuedJsonSchemaFormat | JsonFormat | RegexFormat


class StructuredOutputs(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """vLLM's format options. A schema is an object, or its JSON text."""

    json: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_fallback: bool | None = None
    disable_any_whitespace: bool | None = None
    disable_additional_properties: bool | None = None
    whitespace_pattern: str | None = None
    structural_tag: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class FormatBody(Protocol):
    """A body with all these fields."""

    response_format: AnyFormat | None
    structured_outputs: StructuredOutputs | None
    guided_json: msgspec.Raw
    guided_regex: str | None
    guided_choice: list[str] | None
    guided_grammar: str | None
    regex: str | None
    json_schema: msgspec.Raw
    ebnf: str | None


class _GivenFormat(NamedTuple):
    """A field of the request, and its value."""

    field: str
    kind: str  # the field of the contract's constraint
    value: msgspec.Raw | str | list[str]


def set_constraint(body: FormatBody, constraint: sampling_pb2.OutputConstraint) -> None:
    """Set the constraint from these fields. Raise Failure if several are given, and for unsupported options."""
    _check_options(body.structured_outputs)
    formats = list(_given_formats(body))
    has_format = body.response_format is not None and not isinstance(body.response_format, TextFormat)
    fields = [*(["response_format"] if has_format else []), *(given.field for given in formats)]
    fields = list(dict.fromkeys(name.removesuffix(".value") for name in fields))
    if len(fields) > 1:
        raise Failure.of_field(fields[1], f"can't be combined with {fields[0]}")
    for given in formats:
        _put(given, constraint)


def constraint_name(body: FormatBody, path: str) -> str | None:
    """Return the caller's name of a dotted path of the constraint; None for paths of `response_format` itself."""
    requested = body.response_format
    if isinstance(requested, ValuedJsonSchemaFormat) and requested.value is not None:
        named = path.removeprefix("output_constraint.json_schema")
        return f"response_format.value{named}" if named != path else None
    given = next(_given_formats(body), None)
    if given is None or not f"{path}.".startswith("output_constraint."):
        return None
    part = path.removeprefix("output_constraint").removeprefix(".")
    for known_path in _FIELD_PATHS:
        if part == known_path or part.startswith(f"{known_path}."):
            return given.field + part.removeprefix(known_path)
    return given.field


def _given_formats(body: FormatBody) -> Iterator[_GivenFormat]:
    """Yield the output formats that a body has, in any of their fields."""
    requested = body.response_format
    if (isinstance(requested, ValuedJsonObjectFormat) and is_given(requested.value)) or isinstance(
        requested, JsonFormat
    ):
        yield _GivenFormat("response_format.value", "json_schema", requested.value)
    elif isinstance(requested, RegexFormat):
        yield _GivenFormat("response_format.value", "regex", requested.value)
    named = body.structured_outputs or StructuredOutputs()
    if named.json_object:
        yield _GivenFormat("structured_outputs.json_object", "json_object", "")
    given: list[tuple[str, str, msgspec.Raw | str | list[str] | None]] = [
        ("structured_outputs.json", "json_schema", named.json),
        ("structured_outputs.regex", "regex", named.regex),
        ("structured_outputs.choice", "choice", named.choice),
        ("structured_outputs.grammar", "grammar", named.grammar),
        ("guided_json", "json_schema", body.guided_json),
        ("guided_regex", "regex", body.guided_regex),
        ("guided_choice", "choice", body.guided_choice),
        ("guided_grammar", "grammar", body.guided_grammar),
        ("json_schema", "json_schema", body.json_schema),
        ("regex", "regex", body.regex),
        ("ebnf", "grammar", body.ebnf),
    ]
    for field, kind, value in given:
        if value is not None and not (isinstance(value, msgspec.Raw) and not is_given(value)):
            yield _GivenFormat(field, kind, value)


def _put(given: _GivenFormat, constraint: sampling_pb2.OutputConstraint) -> None:
    if given.kind == "json_object":
        constraint.json_object.SetInParent()
    elif isinstance(given.value, msgspec.Raw):
        constraint.json_schema.name = _NAME
        constraint.json_schema.schema = _schema_text(given.value, given.field)
        constraint.json_schema.in_prompt = False  # as on the servers that define these fields
    elif isinstance(given.value, list):
        constraint.choice.SetInParent()
        check_length(sampling_pb2.TextChoice, "texts", given.value, given.field)
        constraint.choice.texts.extend(given.value)
    else:
        setattr(constraint, given.kind, given.value)


def _schema_text(raw: msgspec.Raw, field: str) -> str:
    """Return a schema's JSON text. Raise Failure unless the value is an object or a string."""
    data = bytes(raw)
    if data.startswith(b'"'):
        return msgspec.json.decode(data, type=str)
    if not data.startswith(b"{"):
        raise Failure.of_field(field, "must be an object or a string: a JSON Schema", Reason.INVALID_TYPE)
    return data.decode()


def _check_options(given: StructuredOutputs | None) -> None:
    """Raise Failure for options of structured outputs that are not supported."""
    for name, reason in _UNAVAILABLE.items() if given is not None else ():
        value = getattr(given, name)
        if is_given(value) if isinstance(value, msgspec.Raw) else value:
            raise Failure.of_field(f"structured_outputs.{name}", f"not supported: {reason}", Reason.UNSUPPORTED_FIELD)

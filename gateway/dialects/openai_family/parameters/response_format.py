"""Response formats of OpenAI's family, and their mapping to the contract's constraint."""

from __future__ import annotations

import msgspec
from sluice.v1 import sampling_pb2

from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import is_given


class TextFormat(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    """Free text."""


class JsonObjectFormat(msgspec.Struct, tag_field="type", tag="json_object", forbid_unknown_fields=True):
    """Any JSON object."""


class NamedSchema(msgspec.Struct, forbid_unknown_fields=True):
    """A JSON Schema with its name."""

    name: str
    description: str | None = None
    schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None


class JsonSchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema", forbid_unknown_fields=True):
    """JSON that matches a schema."""

    json_schema: NamedSchema


ResponseFormat = TextFormat | JsonObjectFormat | JsonSchemaFormat


def to_constraint(response_format: ResponseFormat) -> sampling_pb2.OutputConstraint | None:
    """Return the contract's constraint; None for free text, and for formats that a dialect converts itself."""
    if isinstance(response_format, JsonObjectFormat):
        return sampling_pb2.OutputConstraint(json_object=sampling_pb2.JsonObject())
    if not isinstance(response_format, JsonSchemaFormat):
        return None
    named = response_format.json_schema
    if not is_given(named.schema):
        raise Failure.of_field("response_format.json_schema.schema", "required, but missing", Reason.MISSING_FIELD)
    schema = sampling_pb2.JsonSchema(name=named.name, schema=bytes(named.schema).decode(), strict=named.strict)
    if named.description is not None:
        schema.description = named.description
    return sampling_pb2.OutputConstraint(json_schema=schema)

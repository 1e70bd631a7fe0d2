"""Output formats as grammars, in llguidance's dialect of Lark."""

from __future__ import annotations

import json
from typing import Any

import llguidance

from service.constraints.lark import quote
from service.constraints.schema import prepare_schema
from service.generation.constraint import Grammar
from service.generation.errors import InvalidRequest
from service.generation.json_text import parse_json
from service.generation.output_format import JsonObject, JsonSchema, OutputFormat, Regex


def format_grammar(wanted: OutputFormat) -> Grammar:
    """The grammar of an output format. Raises InvalidRequest for a schema that is no JSON."""
    match wanted:
        case JsonObject(field):
            return _json_grammar({"type": "object"}, field, strict=False)
        case JsonSchema(text, strict, field):
            schema = parse_json(text, field)
            if not isinstance(schema, dict | bool):
                raise InvalidRequest(field, "a JSON Schema is an object or a boolean")
            return _json_grammar(schema, field, strict=strict)
        case Regex(pattern, field):
            return Grammar(f"start: /{llguidance.regex_to_lark(pattern, '')}/\n", field)
        case _:
            texts = " | ".join(quote(text) for text in wanted.texts)
            return Grammar(f"start: {texts}\n", wanted.field)


def _json_grammar(schema: Any, field: str, *, strict: bool) -> Grammar:
    prepared = json.dumps(prepare_schema(schema, strict=strict))
    return Grammar(f"start: %json {prepared}\n", field, schemas={field: prepared})

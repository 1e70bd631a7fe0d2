"""Output formats as grammars, in llguidance's dialect of Lark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import llguidance
from llguidance.gbnf_to_lark import gbnf_to_lark, is_lark_syntax

from service.constraints.lark import literal, quote
from service.constraints.schema import prepare_schema
from service.generation.errors import InvalidRequest
from service.generation.formats.constraint import Grammar
from service.generation.formats.json_text import parse_json
from service.generation.formats.output_format import JsonObject, JsonSchema, OutputFormat, Regex, TextGrammar


def format_grammar(output_format: OutputFormat) -> Grammar:
    """Return the grammar of an output format. Raise InvalidRequest for an unreadable schema or GBNF."""
    match output_format:
        case JsonObject(field):
            return _json_grammar({"type": "object"}, field, strict=False)
        case JsonSchema(text, strict, field):
            schema = parse_json(text, field)
            if not isinstance(schema, dict | bool):
                raise InvalidRequest(field, "a JSON Schema is an object or a boolean")
            return _json_grammar(schema, field, strict=strict)
        case Regex(pattern, field):
            return Grammar(f"start: /{llguidance.regex_to_lark(pattern, '')}/\n", field)
        case TextGrammar(text, field):
            return Grammar(_to_lark(text, field), field)
        case _:
            texts = " | ".join(quote(text) for text in output_format.texts)
            return Grammar(f"start: {texts}\n", output_format.field, texts=tuple(output_format.texts))


def _to_lark(text: str, field: str) -> str:
    """Return a client's grammar as Lark, which the compiler checks. Raise InvalidRequest for invalid GBNF."""
    if "::=" not in text or is_lark_syntax(text):
        return text
    try:
        lark: str = gbnf_to_lark(text)
    except RecursionError as error:
        raise InvalidRequest(field, "the grammar is nested too deeply") from error
    except Exception as error:
        raise InvalidRequest(field, f"not a grammar in GBNF: {error}") from error
    return lark


def _json_grammar(schema: Any, field: str, *, strict: bool) -> Grammar:
    prepared = json.dumps(prepare_schema(schema, strict=strict))
    return Grammar(f"start: %json {prepared}\n", field, schemas={field: prepared})


def marked_content(content: Grammar, opening: str, closing: str, token_ids: Mapping[str, int]) -> Grammar:
    """Return the grammar of an answer: `content` between the markers that the family puts around answers."""
    text = (
        f"start: {literal(opening, token_ids)} marked {literal(closing, token_ids)}\n"
        f"marked: %lark {{\n{content.text}\n}}\n"  # a separate grammar, whose rules may refer to its start
    )
    return replace(content, text=text, texts=())

"""Output formats and tool calls as grammars, in llguidance's dialect of Lark.

A family's call syntax is the same table that the parser goes by, so that it reads what the grammar lets through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import llguidance

from service.constraints.schema import prepare_schema
from service.generation.constraint import Grammar
from service.generation.conversation import Function
from service.generation.errors import InvalidRequest
from service.generation.json_text import parse_json, parse_parameters
from service.generation.output_format import JsonObject, JsonSchema, OutputFormat, Regex
from service.output.tool_syntax import NAMED_ARGUMENTS, ToolSyntax

_ANY_TEXT = r"(.|\n)*"
_MAX_CALLS = 128  # as many as the contract's Message.tool_calls holds


@dataclass(frozen=True, slots=True)
class ToolRules:
    """What the calls of an answer must look like.

    `functions` may be called. `required` demands a call, `single` allows one at most. `field` is what a refusal of no
    single schema is reported under.
    """

    functions: Sequence[Function]
    syntax: ToolSyntax
    required: bool
    single: bool
    field: str


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
            texts = " | ".join(_quote(text) for text in wanted.texts)
            return Grammar(f"start: {texts}\n", wanted.field)


def tool_grammar(rules: ToolRules, token_ids: Mapping[str, int], content: Grammar | None) -> Grammar:
    """The grammar of an answer with calls.

    `token_ids` tells which markers are single tokens. Where no call is demanded, the answer may be text instead, or
    begin with it; with `content`, an answer without calls matches that. Raises InvalidRequest for parameters that are
    no schema.
    """
    schemas: dict[str, str] = {}
    lines = []
    for index, function in enumerate(rules.functions):
        field = f"{function.field}.parameters"
        enforced = rules.required or function.strict
        schema = parse_parameters(function.parameters, field) if enforced else {"type": "object"}
        schemas[field] = json.dumps(prepare_schema(schema, strict=function.strict))
        lines.append(_call(f"call_{index}", function.name, schemas[field], rules.syntax, token_ids))
    lines.append("call: " + " | ".join(f"call_{index}" for index in range(len(rules.functions))))
    lines += _calls(rules, token_ids)
    if rules.required:
        lines.append("start: opening calls")
    elif content is not None:
        lines += ["start: answer | opening calls", content.text.replace("start:", "answer:", 1)]
        schemas |= content.schemas
    else:
        lines += _text(rules.syntax, token_ids)
    return Grammar("\n".join(lines) + "\n", rules.field, schemas=schemas)


def _call(rule: str, name: str, schema: str, syntax: ToolSyntax, token_ids: Mapping[str, int]) -> str:
    arguments = f"%json {schema}"
    if syntax.named:
        return f"{rule}: {_quote(name)} {_marker(NAMED_ARGUMENTS, token_ids)} {arguments}"
    head = f'{{"name": {_quote(name)}, {_quote(syntax.arguments_key)}: '
    return f'{rule}: {_quote(head)} {arguments} "}}"'


def _calls(rules: ToolRules, token_ids: Mapping[str, int]) -> list[str]:
    """The rules `opening`, what stands before the first call, and `calls`, all that follows it."""
    syntax = rules.syntax
    begin = _quote("") if syntax.bare else _marker(syntax.begin, token_ids)
    before, between, after = (_quote(t) for t in (syntax.before_call, syntax.between_calls, syntax.after_call))
    end = _marker(syntax.end, token_ids)

    def repeated(item: str) -> str:
        return "" if rules.single else f"({item}){{0,{_MAX_CALLS - 1}}}"

    if syntax.begins_each_call:
        calls = f"wrapped {repeated(f'{between} {begin} wrapped')}"
        wrapped = f"{before} call {after} {end}"
    else:
        calls = f"wrapped {end}"
        wrapped = f"{before} call {repeated(f'{between} call')} {after}"
    return [f"opening: {begin}", f"calls: {calls}", f"wrapped: {wrapped}"]


def _text(syntax: ToolSyntax, token_ids: Mapping[str, int]) -> list[str]:
    """The rules for text without calls, or text that leads to calls. Text never spells the marker that opens a call."""
    if syntax.bare:
        return [r"TEXT: /\s*([^{\[\s](.|\n)*)?/", "start: TEXT | opening calls"]
    spelled = llguidance.regex_to_lark(re.escape(syntax.begin), "")
    text = rf"TEXT: /{_ANY_TEXT}/ & ~/{_ANY_TEXT}{spelled}{_ANY_TEXT}/"
    if syntax.begin in token_ids:
        return [text, "start: TEXT | TEXT opening calls"]
    # The lexeme ends with the first marker.
    return [text, f"ANY: /{_ANY_TEXT}/", f"head[lazy]: ANY {_quote(syntax.begin)}", "start: TEXT | head calls"]


def _marker(marker: str, token_ids: Mapping[str, int]) -> str:
    return f"<[{token_ids[marker]}]>" if marker in token_ids else _quote(marker)


def _json_grammar(schema: Any, field: str, *, strict: bool) -> Grammar:
    prepared = json.dumps(prepare_schema(schema, strict=strict))
    return Grammar(f"start: %json {prepared}\n", field, schemas={field: prepared})


def _quote(text: str) -> str:
    """JSON's form of a string, but that Lark wants the character DEL escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")

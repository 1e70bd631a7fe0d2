"""Grammars of tool calls.

A family's call syntax is the same table that the parser goes by, so that it reads what the grammar lets through.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.constraints.lark import marker, quote
from service.constraints.tool_rules import MAX_CALLS, ArgumentSchemas, ToolRules, field_of
from service.generation.constraint import Grammar, Opening
from service.output.tool_syntax import BARE_LEAD, NAMED_ARGUMENTS, ToolSyntax

_STRING_MEMBER = r'[ \t\r\n]*:[ \t\r\n]*"[^"\\]*"[ \t\r\n]*,[ \t\r\n]*'  # behind its key


def tool_grammar(rules: ToolRules, token_ids: Mapping[str, int], content: Grammar | None) -> Grammar:
    """The grammar of an answer that is calls, or else matches `content`; None demands calls.

    `token_ids` tells which markers are single tokens. Raises InvalidRequest for parameters that are no schema.
    """
    schemas = ArgumentSchemas(rules)
    syntax = rules.syntax
    begin = quote("") if syntax.bare else marker(syntax.begin, token_ids)
    lines = [*_calls(rules, schemas, token_ids), f"opening: {begin}"]
    if rules.single or not syntax.begins_each_call:
        lines.append("calls: wrapped")
    else:
        more = f"{quote(syntax.between_calls)} {begin} wrapped"
        lines.append(f"calls: wrapped ({more}){{0,{MAX_CALLS - 1}}}")
    if content is None:
        lines.append("start: opening calls")
    else:
        lines += ["start: answer | opening calls", content.text.replace("start:", "answer:", 1)]
    all_schemas = schemas.all | dict(content.schemas if content else {})
    return Grammar("\n".join(lines) + "\n", rules.field, schemas=all_schemas, lenient=schemas.lenient)


def opened_calls(rules: ToolRules, token_ids: Mapping[str, int]) -> Grammar:
    """The grammar of a call that the model opens by itself, in an answer that is free before it.

    It begins behind the marker that opens a call. Raises InvalidRequest for a strict function's parameters that are no
    schema.
    """
    schemas = ArgumentSchemas(rules)
    syntax = rules.syntax
    lines = _bare_calls(rules, schemas) if syntax.bare else [*_calls(rules, schemas, token_ids), "start: wrapped"]
    opening = Opening(syntax.begin, f"start: /{BARE_LEAD}/\n" if syntax.bare else "", once=rules.single or syntax.bare)
    return Grammar("\n".join(lines) + "\n", rules.field, schemas=schemas.all, lenient=schemas.lenient, opening=opening)


def _calls(rules: ToolRules, schemas: ArgumentSchemas, token_ids: Mapping[str, int]) -> list[str]:
    """The rule `wrapped`: what stands behind a marker, up to the end of the call or of the list of calls."""
    syntax = rules.syntax
    lines = _one_of_all(rules, schemas)
    for index, function in enumerate(rules.functions):
        lines.append(f"call_{index}: {_call(function.name, f'arguments_{index}', syntax, token_ids)}")
    before, between, after = (quote(text) for text in (syntax.before_call, syntax.between_calls, syntax.after_call))
    in_list = "" if rules.single or syntax.begins_each_call else f"({between} call){{0,{MAX_CALLS - 1}}}"
    return [*lines, f"wrapped: {before} call {in_list} {after} {marker(syntax.end, token_ids)}"]


def _call(name: str, arguments: str, syntax: ToolSyntax, token_ids: Mapping[str, int]) -> str:
    if syntax.named:
        return f"{quote(name)} {marker(NAMED_ARGUMENTS, token_ids)} {arguments}"
    head = f'{{"name": {quote(name)}, {quote(syntax.arguments_key)}: '
    return f'{quote(head)} {arguments} "}}"'


def _bare_calls(rules: ToolRules, schemas: ArgumentSchemas) -> list[str]:
    """Calls as the parser takes them: in any usual layout and order of members, one after the other or in a list.

    The model has begun the first when the grammar comes to hold, so that its ways are not the grammar's to choose.
    """
    lines = _one_of_all(rules, schemas)
    for index, function in enumerate(rules.functions):
        name = f'"\\"name\\"" ws ":" ws {quote(quote(function.name))}'
        arguments = f'ARGUMENTS ws ":" ws arguments_{index}'
        lines.append(f'call_{index}: {name} ws "," ws {arguments} ws "}}" | {arguments} ws "," ws {name} ws "}}"')
    separator = f"({' | '.join(map(quote, rules.syntax.separators))})?"
    more = in_list = ""
    if not rules.single:
        more = f'(ws {separator} ws "{{" ws members call){{0,{MAX_CALLS - 1}}}'
        in_list = f'(ws "," ws "{{" ws members call){{0,{MAX_CALLS - 1}}}'
    return [
        *lines,
        r"WS: /[ \t\r\n]{1,16}/",
        r"LEAD: /[ \t\r\n]+/",
        "ws: WS?",
        "lead: LEAD?",
        r'ARGUMENTS: "\"arguments\"" | "\"parameters\""',
        rf'ID: /"id"{_STRING_MEMBER}/',
        rf'TYPE: /"type"{_STRING_MEMBER}/',
        "members: (ID TYPE? | TYPE ID?)?",
        f'start: lead "{{" lead members call {more} | in_list',
        f'in_list: lead "[" lead "{{" lead members call {in_list} ws "]"',
    ]


def _one_of_all(rules: ToolRules, schemas: ArgumentSchemas) -> list[str]:
    """The rule `call`, and those of each function's arguments."""
    lines = [
        f"arguments_{index}: %json {schemas.all[field_of(function)]}" for index, function in enumerate(rules.functions)
    ]
    return [*lines, "call: " + " | ".join(f"call_{index}" for index in range(len(rules.functions)))]

"""Grammars of tool calls without an opening marker, in every layout that the parser accepts.

The grammar takes effect after the model has begun the first call, so it must accept every way of beginning one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.constraints.lark import any_of, literal, quote
from service.constraints.tool_rules import MAX_CALLS
from service.output.families.tool_syntax import ObjectCall, PythonicCall, ToolSyntax

_STRING_MEMBER = r'[ \t\r\n]*:[ \t\r\n]*"[^"\\]*"[ \t\r\n]*,[ \t\r\n]*'  # the rest of a member, after its key
_LAYOUT = [r"WS: /[ \t\r\n]{1,16}/", r"LEAD: /[ \t\r\n]+/", "ws: WS?", "lead: LEAD?"]
# The beginning of an answer that is a call for the parser. JSON whose first members are others is content.
_OBJECT_LEAD = (
    r'[ \t\r\n]*(\[[ \t\r\n]*)?\{[ \t\r\n]*("(id|type)"[ \t\r\n]*:[ \t\r\n]*"[^"\\]*"[ \t\r\n]*,[ \t\r\n]*){0,2}'
    r'"(name|arguments|parameters)"(.|\n)*'
)


def bare_lead(syntax: ToolSyntax, names: Sequence[str]) -> str:
    """Return a regular expression that matches an answer as soon as it is certainly a call, with any text after it."""
    match syntax.payload:
        case ObjectCall():
            return _OBJECT_LEAD
        case PythonicCall():
            return rf"[ \t\r\n]*(\[[ \t\r\n]*)?{any_of(names)}\((.|\n)*"
        case _:
            return rf"[ \t\r\n]*{any_of(names)}\n\{{(.|\n)*"


def bare_calls(syntax: ToolSyntax, names: Sequence[str], token_ids: Mapping[str, int], *, is_single: bool) -> list[str]:
    """Return the rule `start` and the rules that it needs in addition to those of the calls and their arguments."""
    end = f"({literal(syntax.end, token_ids)})?" if syntax.end else ""
    repeats = f"{{0,{MAX_CALLS - 1}}}"
    match syntax.payload:
        case ObjectCall():
            return [*_LAYOUT, *_objects(syntax, names, "" if is_single else repeats)]
        case PythonicCall():
            more = "" if is_single else f'(ws "," ws call){repeats}'
            return [*_LAYOUT, f'start: lead "[" lead call {more} ws "]" {end} | lead call {end}']
        case _:
            more = "" if is_single else f"({quote(syntax.between_calls)} call){repeats}"
            return [*_LAYOUT, f"start: lead call {more} {end}"]


def _objects(syntax: ToolSyntax, names: Sequence[str], repeats: str) -> list[str]:
    """Return rules for objects with members in any order, one after the other or in a list."""
    lines = []
    for index, each in enumerate(names):
        name = f'"\\"name\\"" ws ":" ws {quote(quote(each))}'
        arguments = f'ARGUMENTS ws ":" ws call_{index}_arguments'
        lines.append(f'object_{index}: {name} ws "," ws {arguments} ws "}}" | {arguments} ws "," ws {name} ws "}}"')
    separator = f"({' | '.join(map(quote, syntax.separators))})?"
    more = f'(ws {separator} ws "{{" ws members object){repeats}' if repeats else ""
    in_list = f'(ws "," ws "{{" ws members object){repeats}' if repeats else ""
    return [
        *lines,
        "object: " + " | ".join(f"object_{index}" for index in range(len(names))),
        r'ARGUMENTS: "\"arguments\"" | "\"parameters\""',
        rf'ID: /"id"{_STRING_MEMBER}/',
        rf'TYPE: /"type"{_STRING_MEMBER}/',
        "members: (ID TYPE? | TYPE ID?)?",
        f'start: lead "{{" lead members object {more} | in_list',
        f'in_list: lead "[" lead "{{" lead members object {in_list} ws "]"',
    ]

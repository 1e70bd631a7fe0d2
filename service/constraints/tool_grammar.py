"""Grammars of tool calls.

The grammar and the parser use the same description of a family's call syntax, so the parser reads all calls that the
grammar allows.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.constraints.bare_calls import bare_calls, bare_lead
from service.constraints.call_payload import CallPayload
from service.constraints.lark import SPACE, literal, spaced
from service.constraints.tool_rules import MAX_CALLS, ToolRules, called_functions
from service.generation.formats.constraint import Grammar, Opening
from service.output.families.tool_syntax import ChannelCall


def tool_grammar(rules: ToolRules, token_ids: Mapping[str, int], content: Grammar | None) -> Grammar:
    """Return the grammar of an answer that is either tool calls or `content`. If `content` is None, it must be calls.

    `token_ids` has the ids of the markers that are single tokens. Raise InvalidRequest for parameters that are not a
    schema.
    """
    calls = _Calls(rules, token_ids)
    syntax = rules.syntax
    begins = syntax.begins if syntax.writes_also_begin else (syntax.begin,)
    begin, end = " | ".join(literal(each, token_ids) for each in begins), literal(syntax.end, token_ids)
    begin = f"({begin})" if len(begins) > 1 else begin
    if syntax.bare:
        begin, end = f"({begin})?" if syntax.begin else begin, f"({end})?" if syntax.end else end
    lines = [*calls.lines, f"wrapped: {calls.between_markers()} {end}", f"opening: {begin}"]
    if calls.is_single or not syntax.begins_each_call:
        lines.append("calls: wrapped")
    else:
        more = f"{spaced(syntax.between_calls)} {begin} wrapped"
        lines.append(f"calls: wrapped ({more}){{0,{MAX_CALLS - 1}}}")
    if content is None:
        lines.append("start: opening calls")
    else:
        lines += ["start: answer | opening calls", content.text.replace("start:", "answer:", 1)]
    schemas = calls.schemas | dict(content.schemas if content else {})
    return Grammar("\n".join(lines) + "\n", rules.field, schemas=schemas, lenient=calls.lenient)


def opened_calls(rules: ToolRules, token_ids: Mapping[str, int]) -> Grammar:
    """Return the grammar of the calls in otherwise free text, when the model decides whether to call (`auto`).

    It takes effect after the marker that opens a call. Raise InvalidRequest if the parameters of a strict function are
    not a schema.
    """
    calls = _Calls(rules, token_ids)
    syntax = rules.syntax
    lines, lead = calls.lines, ""
    if syntax.bare:
        names = [function.name for function in rules.functions]
        lines += bare_calls(syntax, names, token_ids, is_single=calls.is_single)
        lead = f"start: /{bare_lead(syntax, names)}/\n"
    else:
        lines.append(f"start: {calls.between_markers()} {literal(syntax.end, token_ids)}")
    # With channels (Harmony), the other markers are parts of a header: they open a call only when an answer starts.
    begins = (syntax.begin,) if isinstance(syntax.payload, ChannelCall) else syntax.begins
    opening = Opening(begins, lead, once=calls.is_single or syntax.bare)
    text = "\n".join(lines) + "\n"
    return Grammar(text, rules.field, schemas=calls.schemas, lenient=calls.lenient, opening=opening)


class _Calls:
    """The parts that all grammars of calls share: `lines` are the rules `call`, `call_0`, …, one per function."""

    def __init__(self, rules: ToolRules, token_ids: Mapping[str, int]) -> None:
        self.lines: list[str] = []
        self.schemas: dict[str, str] = {}
        self.lenient: dict[str, str] = {}
        # With channels (Harmony), an answer has at most one message to a function.
        self.is_single = rules.single or isinstance(rules.syntax.payload, ChannelCall)
        self._syntax = rules.syntax
        functions = called_functions(rules)
        for function in functions:
            payload = CallPayload(function, rules.syntax, token_ids)
            self.lines += payload.lines
            self.schemas |= payload.schemas
            self.lenient |= payload.lenient
        self.lines.append("call: " + " | ".join(function.rule for function in functions))

    def between_markers(self) -> str:
        """Return the rule body for the text between the markers: a call, or a list of calls."""
        syntax = self._syntax
        before, between, after = map(spaced, (syntax.before_call, syntax.between_calls, syntax.after_call))
        is_one = self.is_single or syntax.begins_each_call
        calls = f"call {'' if is_one else f'({between} call){{0,{MAX_CALLS - 1}}}'}"
        if syntax.also_brackets:
            more = "" if is_one else f'("," {SPACE} call){{0,{MAX_CALLS - 1}}}'
            calls = f'({calls} | "[" {SPACE} call {SPACE} {more} {SPACE} "]")'
        return f"{before} {calls} {after}"

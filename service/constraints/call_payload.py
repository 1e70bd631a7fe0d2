"""The grammar of one function call, in the syntax of a model family.

Arguments that form one JSON object must match their schema as a whole. Parameters that are written one by one must each
match their own schema, in the schema's order. Text between tags matches `enum`, `const`, `pattern` and the length
limits of a string; it is unconstrained where a value may be a string or another type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from service.constraints.called_function import CalledFunction, Parameter, constant_texts, python_constants
from service.constraints.lark import literal, quote, spaced
from service.constraints.member_list import Member, member_list
from service.constraints.object_call import DEEP_INDENT, object_call
from service.constraints.python_value import PythonValues, UndescribedError
from service.constraints.schema import USUAL_INDENT, prepare_schema
from service.constraints.text_terminal import ANY_TEXT, can_match, text_terminal
from service.output.calls.argument_value import allowed_types
from service.output.families.tool_syntax import (
    CHANNEL,
    CONSTRAIN,
    MESSAGE,
    BracedCall,
    ChannelCall,
    NamedCall,
    ObjectCall,
    PythonicCall,
    Schema,
    TaggedCall,
    TemplatedCall,
    ToolSyntax,
)

_ANY_KEY = r"/[A-Za-z_][A-Za-z0-9_]{0,63}/"
_MAX_UNLISTED = 16  # parameters that the schema doesn't name
_STRING = frozenset({"string"})
_COMMA = '"," " "?'
# The value of a family with bare keys if its schema is not enforced.
_BRACED_VALUES = (
    (
        'braced: /-?[0-9]{1,16}(\\.[0-9]{1,16})?/ | "true" | "false" | "null" | "None" | braced_text | '
        '"[" braced_list? "]" | "{" braced_members? "}"'
    ),
    'braced_list: braced ("," braced){0,63}',
    f'braced_members: {_ANY_KEY} ":" braced ("," {_ANY_KEY} ":" braced){{0,63}}',
)


class CallPayload:
    """The grammar rules of a function's call; the first one is named `rule`.

    `schemas` are the JSON Schemas in the rules, by field; `lenient` are the schemas that may replace them.
    """

    def __init__(self, function: CalledFunction, syntax: ToolSyntax, token_ids: Mapping[str, int]) -> None:
        """`token_ids` has the markers that are single tokens."""
        self.lines: list[str] = []
        self.schemas: dict[str, str] = {}
        self.lenient: dict[str, str] = {}
        self._function = function
        self._token_ids = token_ids
        self.lines.insert(0, f"{function.rule}: {self._body(syntax)}")

    def _body(self, syntax: ToolSyntax) -> str:
        """Return the body of the call's rule, and add the rules that it uses."""
        name = self._function.name
        match syntax.payload:
            case ObjectCall() as call:
                return object_call(call, name, self._whole(DEEP_INDENT if call.is_indented else USUAL_INDENT))
            case NamedCall() as call:
                number = '":" /[0-9]{1,3}/' if call.is_numbered else ""
                call_id = f"({self._literal(call.id_marker)} /[A-Za-z0-9]{{1,64}}/)?" if call.id_marker else ""
                head = f"{self._literal(call.before + name)} {number} {call_id} {self._literal(call.between)}"
                return f"{head} {self._whole()} {self._literal(call.after_text)}"
            case ChannelCall():
                channel = self._literal(f"{CHANNEL}commentary")
                kind = f'" json" | " "? {self._literal(f"{CONSTRAIN}json")}'
                return f"{quote(name)} ({channel})? ({kind})? {self._literal(MESSAGE)} {self._whole()}"
            case TaggedCall() as call:
                return self._tagged(call)
            case PythonicCall():
                return f'{quote(name + "(")} {self._pythonic()} ")"'
            case BracedCall() as call:
                return f'{self._literal(call.before + name + "{")} {self._braced(call)} "}}"'
            case TemplatedCall():
                raise ValueError("a response_template doesn't describe how to write a call")

    def _whole(self, indent: int = USUAL_INDENT) -> str:
        """Return the rule of the arguments as one JSON object."""
        rule = f"{self._function.rule}_arguments"
        return self._json(rule, self._function.field, self._function.parameters, {"type": "object"}, indent)

    def _json(self, rule: str, field: str, schema: Any, instead: Schema, indent: int = USUAL_INDENT) -> str:
        """Add a rule for JSON of a schema, or of `instead` if the schema can't be enforced; return the rule's name."""
        prepared = json.dumps(prepare_schema(schema, strict=self._function.strict, indent=indent))
        self.schemas[field] = prepared
        if self._function.lenient:
            self.lenient[field] = json.dumps(prepare_schema(instead, strict=False, indent=indent))
        self.lines.append(f"{rule}: %json {prepared}")
        return rule

    def _json_value(self, parameter: Parameter) -> str:
        """Add a rule for a parameter's value as JSON; return the rule's name."""
        schema = parameter.schema
        root = self._function.parameters
        kept = {key: root[key] for key in ("$defs", "definitions") if key in root}
        alone = {**kept, **schema} if kept and isinstance(schema, Mapping) else schema
        return self._json(f"{parameter.rule}_json", f"{self._function.field}.properties.{parameter.key}", alone, {})

    def _literal(self, text: str) -> str:
        """Return a text for a rule, with markers that are single tokens as such."""
        return literal(text, self._token_ids)

    def _tagged(self, call: TaggedCall) -> str:
        """Return the call's body with each parameter between tags."""
        opens = " | ".join(self._literal(text) for text in (call.name_open, *call.also_open) if text)
        name = f"{self._literal(self._function.name + call.name_close)} {self._layout(call.after_name, call)}"
        head = f"({opens}) {name}" if opens else name
        end = self._literal(call.call_close)
        parameters = self._function.listed_parameters()
        before = self._layout(call.before_value, call)
        closing = self._layout(call.after_value, call)
        if parameters is None:
            rule = f"{self._function.rule}_any"
            text = self._text(f"{rule}_text", f"/{ANY_TEXT}/", call.around_value + call.value_close)
            value = f"{self._literal(call.key_close)} {before} {self._value_open(call)} {text}"
            self.lines.append(f"{rule}: {self._literal(call.key_open)} {_ANY_KEY} {value} {closing}")
            return f"{head} {rule}{{0,{_MAX_UNLISTED}}} {end}"
        for parameter in parameters:
            key = self._literal(call.key_open + parameter.key)
            value = f"{self._literal(call.key_close)} {before} {self._tagged_value(parameter, call)}"
            self.lines.append(f"{parameter.rule}: {key} {value} {closing}")
        listed = " ".join(each.rule + ("" if each.is_required else "?") for each in parameters)
        return f"{head} {listed} {end}"

    def _tagged_value(self, parameter: Parameter, call: TaggedCall) -> str:
        """Return a parameter's value between its tags: text, or JSON unless it may be a string."""
        close = call.around_value + call.value_close
        types = allowed_types(parameter.schema, self._function.parameters)
        if "string" not in types:
            values = " | ".join([self._json_value(parameter), *python_constants(parameter.schema, types)])
            return f"{self._value_open(call, 1)} ({values}) {self._literal(close)}"
        texts = constant_texts(parameter.schema)
        if texts:
            return f"{self._value_open(call, 0)} ({' | '.join(map(quote, texts))}) {self._literal(close)}"
        terminal = self._terminal(parameter.schema) if types == _STRING else f"/{ANY_TEXT}/"
        text = f"{self._value_open(call, 0)} {self._text(f'{parameter.rule}_text', terminal, close)}"
        if not call.typed_opens or types == _STRING:
            return text
        return f"({text} | {self._value_open(call, 1)} {self._json_value(parameter)} {self._literal(close)})"

    def _value_open(self, call: TaggedCall, kind: int | None = None) -> str:
        """Return what is written before a value: a string if `kind` is 0, JSON if it is 1, else either."""
        if not call.typed_opens:
            return self._literal(call.value_open + call.around_value)
        opens = call.typed_opens if kind is None else (call.typed_opens[kind],)
        return f"({' | '.join(self._literal(each + call.around_value) for each in opens)})"

    def _layout(self, text: str, call: TaggedCall) -> str:
        """Return white space between tags, which is optional if the family also writes calls without it."""
        return spaced(text) if call.is_compact_too else self._literal(text)

    def _terminal(self, schema: Any) -> str:
        """Return a terminal for strings that match a schema; for any string if a lenient schema can't be enforced."""
        terminal = text_terminal(schema)
        return f"/{ANY_TEXT}/" if self._function.lenient and not can_match(terminal) else terminal

    def _text(self, rule: str, terminal: str, close: str) -> str:
        """Return a rule for text up to and including the first `close`."""
        if close.strip() in self._token_ids:  # text never contains a control token
            self.lines.append(f"{rule.upper()}: {terminal}")
            return f"{rule.upper()} {self._literal(close.strip())}"
        self.lines.append(f"{rule.upper()}: {terminal}")
        tokens = [token for token in self._token_ids if token in close]
        if not tokens:
            self.lines.append(f"{rule}[lazy]: {rule.upper()} {quote(close)}")
            return rule
        before, token, rest = close.partition(tokens[0])  # what precedes the token may also be in the text
        more = f" | {rule}" if terminal == f"/{ANY_TEXT}/" else ""
        self.lines.append(f"{rule}: {rule}_part ({self._literal(token + rest)}{more})")
        self.lines.append(f"{rule}_part[lazy]: {rule.upper()} {quote(before)}")
        return rule

    def _pythonic(self) -> str:
        """Return the arguments of a call in Python's syntax."""
        field = self._function.field
        values = PythonValues(f"{self._function.rule}_value", self._function.parameters)
        parameters = self._function.listed_parameters()
        if parameters is None:
            any_value = values.rule(True, f"{field}.additionalProperties")
            self._add(values)
            return self._unlisted("=", any_value)
        members = []
        for each in parameters:
            try:
                value = values.rule(each.schema, f"{field}.properties.{each.key}")
            except UndescribedError:
                value = self._json_value(each)
            members.append(Member(f"{quote(each.key + '=')} {value}", each.is_required))
        self._add(values)
        self.lines += member_list(f"{self._function.rule}_members", members, _COMMA)
        return f"{self._function.rule}_members"

    def _add(self, values: PythonValues) -> None:
        """Add the rules of values in Python's syntax."""
        self.lines += values.lines
        for rule in values.json:
            self._json(rule.name, rule.path, rule.schema, {})

    def _braced(self, call: BracedCall) -> str:
        """Return the arguments of a call in braces, with unquoted keys."""
        text = self._text(f"{self._function.rule}_quoted", f"/{ANY_TEXT}/", call.quote)
        self.lines += [line for line in _BRACED_VALUES if self._function.rule.endswith("_0")]
        if self._function.rule.endswith("_0"):
            self.lines.append(f"braced_text: {self._literal(call.quote)} {text}")
        parameters = self._function.listed_parameters()
        if parameters is None:
            return self._unlisted(":", "braced")
        in_order = sorted(parameters, key=lambda each: each.key.lower())  # as the templates sort them
        members = [
            Member(f"{quote(each.key + ':')} {self._braced_value(each, call)}", each.is_required) for each in in_order
        ]
        self.lines += member_list(f"{self._function.rule}_members", members, quote(","))
        return f"{self._function.rule}_members"

    def _braced_value(self, parameter: Parameter, call: BracedCall) -> str:
        """Return a parameter's value in braces; strings have the family's quotes."""
        types = allowed_types(parameter.schema, self._function.parameters)
        if types == _STRING:
            texts = constant_texts(parameter.schema)
            opening = self._literal(call.quote)
            if texts:
                return f"{opening} ({' | '.join(map(quote, texts))}) {opening}"
            return f"{opening} {self._text(f'{parameter.rule}_text', self._terminal(parameter.schema), call.quote)}"
        if types & {"string", "object", "array"}:
            return "braced"
        none = [text for text in python_constants(parameter.schema, types) if text == quote("None")]
        return f"({' | '.join([self._json_value(parameter), *none])})"

    def _unlisted(self, equals: str, value: str) -> str:
        """Return up to the limit of arguments with any key and a value by the rule `value`."""
        rule = f"{self._function.rule}_unlisted"
        self.lines.append(f"{rule}: {_ANY_KEY} {quote(equals)} {value}")
        separator = _COMMA if equals == "=" else quote(",")
        return f"({rule} ({separator} {rule}){{0,{_MAX_UNLISTED - 1}}})?"

"""The grammar of one function call, in the syntax of a model family.

Arguments that form one JSON object are held to their schema as a whole. Parameters that are written one by one are each
held to their own schema, in the schema's order. Text between tags matches `enum`, `const`, `pattern` and the length
limits of a string; it is free where a value may be a string or something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import llguidance

from service.constraints.lark import literal, quote
from service.constraints.schema import prepare_schema
from service.output.calls.argument_value import allowed_types, resolved
from service.output.families.tool_syntax import (
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

_ANY_TEXT = r"(.|\n)*"
_ANY_KEY = r"/[A-Za-z_][A-Za-z0-9_]{0,63}/"
_MAX_UNLISTED = 16  # parameters that the schema doesn't name
_MAX_LENGTH = 256  # a string's length limit is enforced up to this value
_STRING = frozenset({"string"})
_COMBINING = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "$ref"})
# The value of a family with bare keys if it is not held to its schema.
_BRACED_VALUES = (
    (
        'braced: /-?[0-9]{1,16}(\\.[0-9]{1,16})?/ | "true" | "false" | "null" | braced_text | "[" braced_list? "]" | '
        '"{" braced_members? "}"'
    ),
    'braced_list: braced ("," braced){0,63}',
    f'braced_members: {_ANY_KEY} ":" braced ("," {_ANY_KEY} ":" braced){{0,63}}',
)


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """A function for which a grammar is made.

    `rule` is the name of its grammar rule, `field` the request's field with its parameters. If it is `lenient`, values
    are unconstrained where the schemas of its parameters can't be enforced.
    """

    rule: str
    name: str
    parameters: Schema
    field: str
    strict: bool = False
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a function, with the name of its grammar rule."""

    rule: str
    key: str
    schema: Any
    is_required: bool


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

    def _body(self, syntax: ToolSyntax) -> str:  # noqa: PLR0911  one per payload
        """Return the body of the call's rule, and add the rules that it uses."""
        name = self._function.name
        match syntax.payload:
            case ObjectCall(keyed=True):
                return f'{quote(f"{{{quote(name)}: ")} {self._whole()} "}}"'
            case ObjectCall() as call:
                head = f"{{{call.lead}{quote(call.name_key)}: {quote(name)}, {quote(call.arguments_key)}: "
                return f'{quote(head)} {self._whole()} "}}"'
            case NamedCall() as call:
                number = '":" /[0-9]{1,3}/' if call.is_numbered else ""
                head = f"{self._literal(call.before + name)} {number} {self._literal(call.between)}"
                return f"{head} {self._whole()} {self._literal(call.after_text)}"
            case ChannelCall():
                return f"{self._literal(f'{name} {CONSTRAIN}json{MESSAGE}')} {self._whole()}"
            case TaggedCall() as call:
                return self._tagged(call)
            case PythonicCall() as call:
                return f'{quote(name + "(")} {self._pythonic(call)} ")"'
            case BracedCall() as call:
                return f'{self._literal(call.before + name + "{")} {self._braced(call)} "}}"'
            case TemplatedCall():
                raise ValueError("a response_template doesn't describe how to write a call")

    def _whole(self) -> str:
        """Return the rule of the arguments as one JSON object."""
        rule = f"{self._function.rule}_arguments"
        return self._json(rule, self._function.field, self._function.parameters, {"type": "object"})

    def _json(self, rule: str, field: str, schema: Any, instead: Schema) -> str:
        """Add a rule for JSON of a schema, or of `instead` if the schema can't be enforced; return the rule's name."""
        prepared = json.dumps(prepare_schema(schema, strict=self._function.strict))
        self.schemas[field] = prepared
        if self._function.lenient:
            self.lenient[field] = json.dumps(prepare_schema(instead, strict=False))
        self.lines.append(f"{rule}: %json {prepared}")
        return rule

    def _json_value(self, parameter: _Parameter) -> str:
        """Add a rule for a parameter's value as JSON; return the rule's name."""
        schema = parameter.schema
        root = self._function.parameters
        kept = {key: root[key] for key in ("$defs", "definitions") if key in root}
        alone = {**kept, **schema} if kept and isinstance(schema, Mapping) else schema
        return self._json(f"{parameter.rule}_json", f"{self._function.field}.properties.{parameter.key}", alone, {})

    def _literal(self, text: str) -> str:
        """Return a text for a rule, with markers that are single tokens as such."""
        return literal(text, self._token_ids)

    def _parameters(self) -> list[_Parameter] | None:
        """Return the parameters that may be used, in the schema's order; None if others are allowed too."""
        schema = resolved(self._function.parameters, self._function.parameters)
        listed = schema.get("properties") if isinstance(schema, Mapping) else None
        if not isinstance(listed, Mapping) or _COMBINING & schema.keys() or schema.get("additionalProperties"):
            return None
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        return [
            _Parameter(f"{self._function.rule}_{index}", key, resolved(value, schema), key in required)
            for index, (key, value) in enumerate(listed.items())
        ]

    def _tagged(self, call: TaggedCall) -> str:
        """Return the call's body with each parameter between tags."""
        head = self._literal(f"{call.name_open}{self._function.name}{call.name_close}{call.after_name}")
        end = self._literal(call.call_close)
        parameters = self._parameters()
        opening, closing = call.key_close + call.before_value + call.value_open + call.around_value, call.after_value
        if parameters is None:
            rule = f"{self._function.rule}_any"
            value = self._text(f"{rule}_text", f"/{_ANY_TEXT}/", call.around_value + call.value_close)
            head_and_key = f"{self._literal(call.key_open)} {_ANY_KEY} {self._literal(opening)}"
            self.lines.append(f"{rule}: {head_and_key} {value} {self._literal(closing)}")
            return f"{head} {rule}{{0,{_MAX_UNLISTED}}} {end}"
        for parameter in parameters:
            key = self._literal(call.key_open + parameter.key + opening)
            self.lines.append(f"{parameter.rule}: {key} {self._tagged_value(parameter, call)} {self._literal(closing)}")
        listed = " ".join(each.rule + ("" if each.is_required else "?") for each in parameters)
        return f"{head} {listed} {end}"

    def _tagged_value(self, parameter: _Parameter, call: TaggedCall) -> str:
        """Return a parameter's value with the tag that closes it: text, or JSON unless it may be a string."""
        close = call.around_value + call.value_close
        types = allowed_types(parameter.schema, self._function.parameters)
        if "string" not in types:
            return f"{self._json_value(parameter)} {self._literal(close)}"
        texts = _texts(parameter.schema)
        if texts:
            return f"({' | '.join(map(quote, texts))}) {self._literal(close)}"
        terminal = self._terminal(parameter.schema) if types == _STRING else f"/{_ANY_TEXT}/"
        return self._text(f"{parameter.rule}_text", terminal, close)

    def _terminal(self, schema: Any) -> str:
        """Return a terminal for strings that match a schema; for any string if a lenient schema can't be enforced."""
        terminal = _terminal(schema)
        if self._function.lenient and llguidance.LLMatcher.validate_grammar(f"start: TEXT\nTEXT: {terminal}\n"):
            return f"/{_ANY_TEXT}/"
        return terminal

    def _text(self, rule: str, terminal: str, close: str) -> str:
        """Return a rule for text up to and including the first `close`."""
        if close.strip() in self._token_ids:  # text never contains a control token
            self.lines.append(f"{rule.upper()}: {terminal}")
            return f"{rule.upper()} {self._literal(close.strip())}"
        self.lines += [f"{rule.upper()}: {terminal}", f"{rule}[lazy]: {rule.upper()} {quote(close)}"]
        return rule

    def _pythonic(self, call: PythonicCall) -> str:
        """Return the arguments of a call in Python's syntax."""
        parameters = self._parameters()
        if parameters is None:
            return self._unlisted(
                "=", self._json(f"{self._function.rule}_any", f"{self._function.field}.values", {}, {})
            )
        values = []
        for each in parameters:
            types = allowed_types(each.schema, self._function.parameters)
            if types == {"boolean"} and not _texts(each.schema):
                value = f"({quote(call.true)} | {quote(call.false)})"
            else:
                value = quote(call.none) if types == {"null"} else self._json_value(each)
            values.append(f"{quote(each.key + '=')} {value}")
        return self._listed(parameters, values, ", ")

    def _braced(self, call: BracedCall) -> str:
        """Return the arguments of a call in braces, with unquoted keys."""
        text = self._text(f"{self._function.rule}_quoted", f"/{_ANY_TEXT}/", call.quote)
        self.lines += [line for line in _BRACED_VALUES if self._function.rule.endswith("_0")]
        if self._function.rule.endswith("_0"):
            self.lines.append(f"braced_text: {self._literal(call.quote)} {text}")
        parameters = self._parameters()
        if parameters is None:
            return self._unlisted(":", "braced")
        values = [f"{quote(each.key + ':')} {self._braced_value(each, call)}" for each in parameters]
        return self._listed(parameters, values, ",")

    def _braced_value(self, parameter: _Parameter, call: BracedCall) -> str:
        """Return a parameter's value in braces; strings have quotes of their own."""
        types = allowed_types(parameter.schema, self._function.parameters)
        if types == _STRING:
            texts = _texts(parameter.schema)
            opening = self._literal(call.quote)
            if texts:
                return f"{opening} ({' | '.join(map(quote, texts))}) {opening}"
            return f"{opening} {self._text(f'{parameter.rule}_text', self._terminal(parameter.schema), call.quote)}"
        return self._json_value(parameter) if not types & {"string", "object", "array"} else "braced"

    def _unlisted(self, equals: str, value: str) -> str:
        """Return up to the limit of arguments with any key and a value by the rule `value`."""
        rule = f"{self._function.rule}_unlisted"
        self.lines.append(f"{rule}: {_ANY_KEY} {quote(equals)} {value}")
        separator = '", "' if equals == "=" else '","'
        return f"({rule} ({separator} {rule}){{0,{_MAX_UNLISTED - 1}}})?"

    def _listed(self, parameters: Sequence[_Parameter], values: Sequence[str], separator: str) -> str:
        """Return rules for the values in their order, with separators between them; optional ones may be omitted."""
        rule, last = self._function.rule, len(parameters)
        for index, (parameter, value) in enumerate(zip(parameters, values, strict=True)):
            self.lines.append(f"{parameter.rule}: {value}")
            first, rest = f"{parameter.rule} {rule}_rest_{index + 1}", f"{quote(separator)} {parameter.rule}"
            skipped = "" if parameter.is_required else f" | {rule}_first_{index + 1}"
            self.lines.append(f"{rule}_first_{index}: {first}{skipped}")
            skipped = "" if parameter.is_required else f" | {rule}_rest_{index + 1}"
            self.lines.append(f"{rule}_rest_{index}: {rest} {rule}_rest_{index + 1}{skipped}")
        self.lines += [f'{rule}_first_{last}: ""', f'{rule}_rest_{last}: ""']
        return f"{rule}_first_0"


def _texts(schema: Any) -> list[str]:
    """Return the texts that a schema allows as the value; none if it doesn't list them."""
    if not isinstance(schema, Mapping):
        return []
    listed = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if not isinstance(listed, list):
        return []
    return [value if isinstance(value, str) else json.dumps(value) for value in listed]


def _terminal(schema: Any) -> str:
    """Return a terminal for the strings that match a schema, as far as that is enforced."""
    if not isinstance(schema, Mapping):
        return f"/{_ANY_TEXT}/"
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    least = least if isinstance(least, int) and least <= _MAX_LENGTH else 0
    bound = str(most) if isinstance(most, int) and most <= _MAX_LENGTH else ""
    terminal = rf"/(.|\n){{{least},{bound}}}/" if least or bound else f"/{_ANY_TEXT}/"
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        before = "" if pattern.startswith("^") else _ANY_TEXT
        after = "" if pattern.endswith("$") and not pattern.endswith(r"\$") else _ANY_TEXT
        inner = pattern.removeprefix("^").removesuffix("$" if not after else "")
        alone = f"/{llguidance.regex_to_lark(inner, '')}/"
        if llguidance.LLMatcher.validate_grammar(f"start: {alone}\n"):
            return f"{terminal} & {alone}"  # an invalid pattern may become valid with the text around it: use it alone
        terminal += f" & /{llguidance.regex_to_lark(f'{before}({inner}){after}', '')}/"
    return terminal

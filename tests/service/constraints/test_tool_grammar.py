"""Grammars of tool calls: the family's parser reads every text that they allow."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import jsonschema
import pytest

from service.constraints.grammar import format_grammar
from service.constraints.tool_grammar import tool_grammar
from service.constraints.tool_rules import ToolRules
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import InvalidRequest, UnsupportedConstraint
from service.generation.formats.constraint import Grammar
from service.generation.formats.output_format import OutputFormat, TextChoice
from service.generation.prompts.conversation import Function
from service.output.families.object_calls import HERMES
from service.output.families.tool_families import SYNTAXES
from service.output.families.tool_syntax import ToolSyntax
from tests.engine.constraints.fakes import END, tokenizer_of
from tests.service.constraints.fakes import accepts, said_under
from tests.service.output.families.families import FAMILIES, MARKERS, read
from tests.service.prompts.fakes import control_tokens_of

WITH_TOKENS = tokenizer_of(*MARKERS)
SPELLED = tokenizer_of()
PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 8},
        "days": {"type": "integer", "minimum": 0, "maximum": 99},
        "unit": {"enum": ["C", "F"]},
    },
    "required": ["city", "unit"],
}


def function(name: str, parameters: str = "", index: int = 0, **fields: Any) -> Function:
    return Function(name, parameters=parameters, field=f"tools[{index}].function", **fields)


WEATHER = function("weather", json.dumps(PARAMETERS), strict=True)
PING = function("ping", '{"type": "object", "properties": {}}', index=1)
TOOLS = [WEATHER, PING]

every_syntax = pytest.mark.parametrize("syntax", SYNTAXES.values(), ids=SYNTAXES)
either_tokenizer = pytest.mark.parametrize("tokenizer", [WITH_TOKENS, SPELLED], ids=["tokens", "spelled"])


def grammar_of(rules: ToolRules, tokenizer: FastTokenizer, content: OutputFormat | None = None) -> Grammar:
    ids = control_tokens_of(tokenizer, "".join(MARKERS)).ids
    return tool_grammar(rules, ids, format_grammar(content) if content else None)


def parsed(syntax: ToolSyntax, text: str) -> tuple[str, list[tuple[str, str]]]:
    return read(syntax, text, {"weather": PARAMETERS, "ping": {}})[1:]


def check(calls: list[tuple[str, str]]) -> None:
    for name, arguments in calls:
        jsonschema.validate(json.loads(arguments), PARAMETERS if name == "weather" else {"type": "object"})


@every_syntax
@either_tokenizer
def test_required_calls_have_no_other_text(syntax: ToolSyntax, tokenizer: FastTokenizer) -> None:
    """For any drawn tokens there is at least one call, each matches its schema, and there is no other text."""
    rules = ToolRules(TOOLS, syntax, required=True, single=False, field="tools")
    for seed in range(3):
        content, calls = parsed(syntax, said_under(grammar_of(rules, tokenizer), tokenizer, seed))
        assert content == ""
        assert calls
        check(calls)


@every_syntax
@either_tokenizer
def test_exactly_one_call_without_parallel_calls(syntax: ToolSyntax, tokenizer: FastTokenizer) -> None:
    """Without parallel calls there is exactly one required call, and the grammar ends by itself."""
    rules = ToolRules(TOOLS[:1], syntax, required=True, single=True, field="tools")
    for seed in range(3):
        content, calls = parsed(syntax, said_under(grammar_of(rules, tokenizer), tokenizer, seed))
        assert (content, [name for name, _ in calls]) == ("", ["weather"])
        check(calls)


@every_syntax
@either_tokenizer
def test_call_in_the_familys_layout_is_allowed(syntax: ToolSyntax, tokenizer: FastTokenizer) -> None:
    """A call in the family's own layout is allowed."""
    (family,) = (each for each in FAMILIES if each.syntax is syntax)
    rules = ToolRules([PING], syntax, required=True, single=False, field="tools")
    assert accepts(grammar_of(rules, tokenizer), tokenizer, family.ping + END)


def test_content_is_constrained_when_tools_are_given() -> None:
    """With an output constraint and tools, the answer is either matching content or calls."""
    content = TextChoice(("yes", "no"), "output_constraint.choice.texts")
    rules = ToolRules(TOOLS, HERMES, required=False, single=False, field="tools")
    seen = set()
    for seed in range(40):
        text, calls = parsed(HERMES, said_under(grammar_of(rules, WITH_TOKENS, content), WITH_TOKENS, seed))
        assert bool(calls) != (text in ("yes", "no"))
        check(calls)
        seen.add(bool(calls))
    assert seen == {True, False}


def test_unsupported_schema_is_named_by_its_tool() -> None:
    """The error names the one of several tools whose schema can't be enforced."""
    bad = function("bad", '{"type": "object", "properties": {"a": {"uniqueItems": true}}}', index=1)
    rules = ToolRules([WEATHER, bad], HERMES, required=True, single=False, field="tools")
    with pytest.raises(UnsupportedConstraint, match="the keyword uniqueItems at /properties/a/uniqueItems") as caught:
        accepts(grammar_of(rules, WITH_TOKENS), WITH_TOKENS, "")
    assert caught.value.field == "tools[1].function.parameters"


def test_unenforceable_schema_of_an_optional_tool_is_replaced() -> None:
    """If calls are optional, a schema that can't be enforced is replaced by any object."""
    loose = function("ping", '{"type": "object", "not": {"required": ["x"]}}', index=1)
    rules = ToolRules([WEATHER, loose], HERMES, required=False, single=False, field="tools")
    content = TextChoice(("yes",), "output_constraint.choice.texts")
    texts = [said_under(grammar_of(rules, WITH_TOKENS, content), WITH_TOKENS, seed) for seed in range(20)]
    calls = [call for text in texts for call in parsed(HERMES, text)[1]]
    check(calls)
    assert {name for name, _ in calls} == {"weather", "ping"}


@every_syntax
@pytest.mark.parametrize(
    "value",
    [
        {"type": "string", "pattern": "^(?!no).*$"},
        {"type": "string", "pattern": "(["},
        {"type": "string", "pattern": "a)b(c"},
        {"type": "string", "minLength": 5, "maxLength": 3},
        {"type": "string", "minLength": -1},
        {"type": "string", "enum": 5},
    ],
    ids=["looks ahead", "broken", "closed before it opens", "too short", "below nothing", "no list"],
)
def test_unenforceable_value_schema_is_unconstrained_in_optional_calls(
    syntax: ToolSyntax, value: dict[str, Any]
) -> None:
    """In families that write values one by one, a value whose schema can't be enforced is free."""
    loose = function("ping", json.dumps({"type": "object", "properties": {"a": value}}))
    rules = ToolRules([loose], syntax, required=False, single=False, field="tools")
    content = TextChoice(("yes",), "output_constraint.choice.texts")
    assert accepts(grammar_of(rules, WITH_TOKENS, content), WITH_TOKENS, "yes" + END)


@every_syntax
def test_invalid_pattern_is_rejected_if_it_is_required(syntax: ToolSyntax) -> None:
    """The text around a pattern doesn't make an invalid pattern valid."""
    expected = {"type": "object", "properties": {"a": {"type": "string", "pattern": "a)b(c"}}, "required": ["a"]}
    rules = ToolRules(
        [function("ping", json.dumps(expected), strict=True)], syntax, required=True, single=True, field="tools"
    )
    with pytest.raises(UnsupportedConstraint):
        said_under(grammar_of(rules, WITH_TOKENS, None), WITH_TOKENS, 0)


@every_syntax
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {}}, "required": 5},
        {"properties": {"a": {}}, "required": "a"},
        {"properties": {"a": 5}, "$ref": "#/properties/a"},
        {"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}] * 9}}},
    ],
    ids=["number", "text", "number by reference", "itself"],
)
def test_odd_schemas_are_rejected_or_accepted(syntax: ToolSyntax, schema: dict[str, Any]) -> None:
    """Odd schemas cause no failure and no delay."""
    rules = ToolRules([function("ping", json.dumps(schema))], syntax, required=True, single=True, field="tools")
    with suppress(UnsupportedConstraint):
        accepts(grammar_of(rules, WITH_TOKENS), WITH_TOKENS, "")


@pytest.mark.parametrize("parameters", ["[]", '{"type": "string"}', "{"])
def test_parameters_other_than_an_object_schema_are_rejected(parameters: str) -> None:
    """The parameters of a function must be the schema of an object."""
    rules = ToolRules([function("f", parameters, index=3)], HERMES, required=True, single=True, field="tools")
    with pytest.raises(InvalidRequest) as caught:
        tool_grammar(rules, {}, None)
    assert caught.value.field == "tools[3].function.parameters"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("hermes", '<tool_call>\n{"name": "spell", "arguments": {"input": "', '"}}\n</tool_call>'),
        (
            "qwen3-coder",
            "<tool_call>\n<function=spell>\n<parameter=input>\n",
            "\n</parameter>\n</function>\n</tool_call>",
        ),
    ],
)
def test_pattern_holds_for_the_whole_text(name: str, before: str, after: str) -> None:
    """An expression of a custom tool has alternatives, which are anchored together."""
    schema: dict[str, Any] = {"type": "object", "properties": {"input": {"type": "string", "pattern": "^(?:a|bc+)$"}}}
    schema |= {"required": ["input"], "additionalProperties": False}
    spell = function("spell", json.dumps(schema), strict=True)
    rules = ToolRules([spell], SYNTAXES[name], required=True, single=True, field="tools")
    grammar = grammar_of(rules, SPELLED)
    allowed = [text for text in ("a", "bcc", "", "ab", "xa", "bcx") if accepts(grammar, SPELLED, before + text + after)]
    assert allowed == ["a", "bcc"]


def test_pattern_with_a_line_end_holds_in_pythons_syntax() -> None:
    """A line end is written as an escape in double quotes; the parser reads the text that the expression demands."""
    schema: dict[str, Any] = {"type": "object", "properties": {"input": {"type": "string", "pattern": "^(?:a\\nb?)$"}}}
    schema |= {"required": ["input"], "additionalProperties": False}
    syntax = SYNTAXES["pythonic"]
    rules = ToolRules(
        [function("spell", json.dumps(schema), strict=True)], syntax, required=True, single=True, field="tools"
    )
    grammar = grammar_of(rules, SPELLED)
    for text, allowed in ((r'"a\n"', True), (r'"a\nb"', True), ('"a"', False), ("'a'", False), ('"a\nb"', False)):
        call = f"[spell(input={text})]"
        assert accepts(grammar, SPELLED, call) is allowed
        if allowed:
            ((_, arguments),) = read(syntax, call, {"spell": schema})[2]
            assert json.loads(arguments) == {"input": json.loads(text)}

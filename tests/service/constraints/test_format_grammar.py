"""Grammars of output formats: every allowed text has the requested format."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from service.constraints.grammar import format_grammar, marked_content
from service.generation.errors import InvalidRequest, UnsupportedConstraint
from service.generation.formats.constraint import Grammar
from service.generation.formats.output_format import (
    JsonObject,
    JsonSchema,
    OutputFormat,
    Regex,
    TextChoice,
    TextGrammar,
)
from tests.engine.constraints.fakes import ADDED, tokenizer_of
from tests.service.constraints.fakes import accepts, compiler_of, said_under

TOKENIZER = tokenizer_of(*ADDED)
FIELD = "output_constraint.json_schema.schema"


def schema_grammar(schema: Any, *, strict: bool = False) -> Grammar:
    return format_grammar(JsonSchema(json.dumps(schema), strict, FIELD))


def text_of(grammar: Grammar, seed: int) -> str:
    return said_under(grammar, TOKENIZER, seed)


@pytest.mark.parametrize("seed", range(20))
def test_json_matches_its_schema(seed: int) -> None:
    """For any drawn tokens, the text is JSON that matches its schema."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 5}, "b": {"enum": ["<|im_end|>", 7, None]}},
        "required": ["a", "b"],
    }
    jsonschema.validate(json.loads(text_of(schema_grammar(schema), seed)), schema, jsonschema.Draft202012Validator)


@pytest.mark.parametrize("seed", range(10))
def test_json_object_format_yields_an_object(seed: int) -> None:
    """`JsonObject` gives some JSON object."""
    assert isinstance(json.loads(text_of(format_grammar(JsonObject("f")), seed)), dict)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('{"a": 1}', True),
        ('{\n  "a": 1\n}', True),
        ('{  "a": 1}', False),
        ('{\n\n"a": 1}', False),
        ('{"a": 1} ', False),
    ],
)
def test_white_space_is_bounded(text: str, *, fits: bool) -> None:
    """Between two parts of JSON at most one space, or one line end with indentation, is allowed."""
    grammar = schema_grammar({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert accepts(grammar, TOKENIZER, text) is fits


def test_format_that_cannot_be_enforced_is_an_annotation_unless_strict() -> None:
    """A schema with an unknown format compiles, and is rejected with the keyword if it is strict."""
    schema = {"type": "object", "properties": {"id": {"type": "string", "format": "iri"}}}
    assert accepts(schema_grammar(schema), TOKENIZER, '{"id": "x y"}')
    with pytest.raises(UnsupportedConstraint, match="the keyword format at /properties/id/format") as caught:
        text_of(schema_grammar(schema, strict=True), 0)
    assert caught.value.field == FIELD


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "line 1, column 2"),
        ("[1]", "an object or a boolean"),
        ("NaN", "NaN"),
        ("[" * 50_000, "deep"),
        ('{"items":' * 120 + "{}" + "}" * 120, "deep"),
    ],
)
def test_unreadable_schema_is_rejected_by_field(schema: str, message: str) -> None:
    """The error for an unreadable schema contains its position."""
    with pytest.raises(InvalidRequest, match=message) as caught:
        format_grammar(JsonSchema(schema, strict=False, field=FIELD))
    assert caught.value.field == FIELD


def test_compiler_options_in_a_clients_schema_are_ignored() -> None:
    """The compiler's own options have no effect in a client's schema."""
    with pytest.raises(UnsupportedConstraint):
        text_of(schema_grammar({"not": {}, "x-guidance": {"lenient": True}}), 0)


@pytest.mark.parametrize("pattern", ["a[^\\s\\S]", "[^\\s\\S]", "("])
def test_regex_that_nothing_matches_is_rejected_by_its_field(pattern: str) -> None:
    """An expression that matches nothing, or is invalid, is rejected for its field."""
    with pytest.raises(UnsupportedConstraint) as caught:
        text_of(format_grammar(Regex(pattern, "output_constraint.regex")), 0)
    assert caught.value.field == "output_constraint.regex"


@pytest.mark.parametrize(
    "texts", [["yes", "no"], ["a", "ab"], ['"\n\\', "é"], ["<|im_end|>", "</tool_call>"], ["\0", "\x7f", "ü"]]
)
def test_choice_is_one_of_the_texts(texts: list[str]) -> None:
    """The text is one of the given ones, and each of them is possible, including spellings of control tokens."""
    grammar = format_grammar(TextChoice(texts, "f"))
    assert {text_of(grammar, seed) for seed in range(40)} == set(texts)


LARK = 'start: "[" item ("," item)* "]"\nitem: "yes" | "no" | start\n'
GBNF = 'root ::= "[" item ("," item)* "]"\nitem ::= "yes" | "no" | root\n'


@pytest.mark.parametrize("text", [LARK, GBNF], ids=["lark", "gbnf"])
def test_clients_grammar_is_enforced(text: str) -> None:
    """In both languages nested lists match, and unclosed or unknown text doesn't."""
    grammar = format_grammar(TextGrammar(text, "f"))
    assert accepts(grammar, TOKENIZER, "[yes,[no,[yes]],no]")
    assert not accepts(grammar, TOKENIZER, "[yes,maybe]")
    assert set(text_of(grammar, 0)) <= set("[],yesno")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("root ::= [", InvalidRequest),
        ("root ::= " + "(" * 30_000, InvalidRequest),
        ("no grammar", UnsupportedConstraint),
        ("begin: /a/", UnsupportedConstraint),
        ('start: "a" nothing', UnsupportedConstraint),
        ("start: /(?=a)b/", UnsupportedConstraint),
    ],
)
def test_invalid_grammar_is_rejected_by_its_field(text: str, error: type[InvalidRequest]) -> None:
    """An invalid grammar is rejected for its field, when it is read or when it is compiled."""
    with pytest.raises(error) as caught:
        text_of(format_grammar(TextGrammar(text, "f")), 0)
    assert caught.value.field == "f"


@pytest.mark.parametrize(
    ("expected", "inner"),
    [
        (TextGrammar(LARK, "f"), "[yes,[no]]"),
        (TextGrammar('// start: "q"\nrestart: "x" | "{" restart "}"\nstart: restart\n', "f"), "{{x}}"),
        (TextChoice(["yes", "no"], "f"), "no"),
        (JsonSchema('{"type": "array", "items": {"type": "null"}}', True, "f"), "[null]"),
        (Regex("[0-9]{2}", "f"), "42"),
    ],
    ids=["recursive", "like names", "choice", "schema", "regex"],
)
def test_answer_markers_surround_the_constrained_text_once(expected: OutputFormat, inner: str) -> None:
    """The markers occur once, whatever rule names a client's grammar has and wherever it refers to its start."""
    grammar = marked_content(format_grammar(expected), "<answer>", "</answer>", {})
    assert accepts(grammar, TOKENIZER, f"<answer>{inner}</answer>")
    assert not accepts(grammar, TOKENIZER, inner)
    assert not accepts(grammar, TOKENIZER, f"<answer><answer>{inner}")
    state = compiler_of(TOKENIZER, ends_in_time=True).compile(grammar)
    assert state.shortest() is not None
    for token in TOKENIZER.encode(f"<answer>{inner}</answer>"):
        state.accept(token)
    assert state.is_accepting()

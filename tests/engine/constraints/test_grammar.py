"""Compiled grammars: texts under their masks match, and unsupported parts are named in the error."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import numpy as np
import pytest

from service.engine.constraints.grammar import GrammarCompiler, GrammarConstraint
from service.generation.errors import ConstraintFailed, UnsupportedConstraint
from service.generation.formats.constraint import Grammar
from tests.engine.constraints.fakes import (
    ADDED,
    END,
    allowed_ids,
    babble,
    control_ids_of,
    json_grammar,
    regex_grammar,
    token_id,
    tokenizer_of,
)
from tests.engine.constraints.random_schemas import random_schema

TOKENIZER = tokenizer_of(*ADDED)
END_ID = token_id(TOKENIZER, END)


def compiler_of(**limits: Any) -> GrammarCompiler:
    return GrammarCompiler(TOKENIZER, control_ids_of(TOKENIZER), [END_ID], **limits)


COMPILER = compiler_of()


def said_under(grammar: Grammar, seed: int) -> str:
    said = babble(COMPILER.compile(grammar), TOKENIZER, END_ID, random.Random(seed))
    return b"".join(TOKENIZER.token_bytes(token) for token in said[:-1]).decode()


def accepts(constraint: GrammarConstraint, text: str) -> bool:
    try:
        for token in TOKENIZER.encode(text):
            constraint.accept(token)
    except ConstraintFailed:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_json_schema_holds_for_random_schemas_and_random_logits(seed: int) -> None:
    """For any tokens drawn under the mask of a schema, the text is JSON that matches it."""
    schema = random_schema(random.Random(seed))
    value = json.loads(said_under(json_grammar(schema), seed))
    jsonschema.validate(value, schema, jsonschema.Draft202012Validator)


@pytest.mark.parametrize("pattern", ["[0-9]{3}-[a-c]+", "(ja|nein)", r"a\.b[-]c?", "é{2}", "<think>x"])
def test_regex_matches_the_whole_text(pattern: str) -> None:
    """The text matches the expression from its beginning to its end."""
    for seed in range(5):
        text = said_under(regex_grammar(pattern), seed)
        assert re.fullmatch(pattern, text), text


@pytest.mark.parametrize(
    "texts", [["yes", "no"], ["a", "ab"], ['"\n\\', "é"], ["<|im_end|>", "</tool_call>"], ["\0", "ü"]]
)
def test_choice_is_one_of_the_texts(texts: list[str]) -> None:
    """The text is one of the given ones, and each of them is possible, including spellings of control tokens."""
    grammar = Grammar(f"start: {' | '.join(map(json.dumps, texts))}\n", "texts")
    assert {said_under(grammar, seed) for seed in range(40)} == set(texts)


def test_bounded_schema_ends_by_itself() -> None:
    """After the last character that a bounded schema allows, only the end may follow."""
    schema = {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    constraint = COMPILER.compile(json_grammar(schema))
    for token in TOKENIZER.encode('{"a": 1'):
        constraint.accept(token)
    assert not constraint.is_finished()
    constraint.accept(TOKENIZER.encode("}")[0])
    assert constraint.is_finished()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"not": {"type": "string"}}, "the keyword not at /not"),
        ({"properties": {"a/b": {"items": {"if": {}}}}}, "the keyword if at /properties/a~1b/items/if"),
        ({"anyOf": [{"type": "null"}, {"uniqueItems": True}]}, "the keyword uniqueItems at /anyOf/1/uniqueItems"),
        ({"$defs": {"x": {"contains": {}}}, "$ref": "#/$defs/x"}, r"the keyword contains at /\$defs/x/contains"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, r"the keyword \$ref at /properties/a/\$ref"),
        ({"items": {"type": "strin"}}, "the keyword type at /items/type"),
        ({"items": {"type": "string", "format": "iri"}}, "the keyword format at /items/format"),
        ({"type": "string", "pattern": "(?=a)b"}, "the keyword pattern at /pattern"),
        ({"oneOf": [{"type": "string"}, {"minLength": 2}]}, "the keyword oneOf at /oneOf"),
        ({"type": "integer", "minimum": 2, "maximum": 1}, "minimum"),
        (False, "false"),
    ],
)
def test_schema_error_names_keyword_and_path(schema: Any, message: str) -> None:
    """A schema that can't be enforced is rejected with the keyword and its path."""
    with pytest.raises(UnsupportedConstraint, match=message) as caught:
        COMPILER.compile(json_grammar(schema, "output.schema"))
    assert caught.value.field == "output.schema"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 2**64},
        {"type": "integer", "maximum": -(2**64)},
        {"const": 2**64, "not": {}},
        {"type": "string", "maxLength": 10**30},
        {"type": "integer", "minimum": 10**4000, "not": {}},
    ],
)
def test_schema_with_huge_numbers_is_rejected_like_others(schema: Any) -> None:
    """A number beyond 64 bits that the compiler can't enforce is the client's error."""
    with pytest.raises(UnsupportedConstraint) as caught:
        COMPILER.compile(json_grammar(schema))
    assert caught.value.field == "schema"


def test_grammar_that_does_not_compile_is_rejected() -> None:
    """An invalid expression is reported for its field."""
    with pytest.raises(UnsupportedConstraint, match="look-around") as caught:
        COMPILER.compile(regex_grammar("(?=a)b"))
    assert caught.value.field == "regex"


def test_schema_too_complex_for_a_mask_is_rejected() -> None:
    """A grammar that compiles but can't be followed is rejected at once, not in the middle of an answer."""
    properties = {f"k{index}": {"type": "integer"} for index in range(1000)}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    with pytest.raises(UnsupportedConstraint, match="too complex") as caught:
        COMPILER.compile(json_grammar(schema))
    assert caught.value.field == "schema"


def test_grammar_that_is_ambiguous_in_hundreds_of_ways_is_rejected() -> None:
    """A grammar is rejected if the parser would have to look at hundreds of alternatives for each token."""
    rules = [f'r{i}: "a" r{i} | "a" r{(7 * i + 1) % 400} | "b"' for i in range(400)]
    start = " | ".join(f"r{i}" for i in range(400))
    with pytest.raises(UnsupportedConstraint, match="too complex") as caught:
        COMPILER.compile(Grammar("\n".join([f"start: {start}", *rules, ""]), "grammar"))
    assert caught.value.field == "grammar"


def test_schema_of_hundreds_of_optional_properties_is_taken() -> None:
    """A schema with hundreds of optional properties is accepted: thousands of items take the parser a millisecond."""
    properties = {f"p{i}": {"type": "string"} for i in range(500)}
    schema = json.dumps({"type": "object", "properties": properties, "additionalProperties": False})
    constraint = COMPILER.compile(Grammar(f"start: %json {schema}\n", "schema", schemas={"schema": schema}))
    assert constraint.follow(b'{"p1": "a", "p499": "b"}')
    assert constraint.is_accepting()


@pytest.mark.parametrize("regex", ["a[^\\s\\S]", "[^\\s\\S]"])
def test_constraint_that_nothing_matches_is_rejected(regex: str) -> None:
    """A constraint that matches no text is rejected."""
    with pytest.raises(UnsupportedConstraint):
        COMPILER.compile(regex_grammar(regex))


def test_grammar_above_the_size_limit_is_rejected() -> None:
    """The error message contains the limit."""
    compiler = compiler_of(max_grammar_characters=100)
    with pytest.raises(UnsupportedConstraint, match="the limit is 100"):
        compiler.compile(json_grammar({"enum": ["x" * 100]}))


def test_each_use_of_a_cached_grammar_is_a_fresh_state() -> None:
    """The state of one answer doesn't affect another one with the same grammar."""
    grammar = json_grammar({"const": "a"})
    assert accepts(COMPILER.compile(grammar), '"a"')
    assert accepts(COMPILER.compile(grammar), '"a"')


@pytest.mark.parametrize(
    ("limits", "values", "kept"),
    [
        ({"max_cached_grammars": 2}, ["a", "b", "a", "c"], ["a", "c"]),  # the least recently used goes first
        ({"max_cached_characters": 400}, ["a" * 150, "b" * 150], ["b" * 150]),
    ],
    ids=["grammars", "characters"],
)
def test_cache_keeps_the_latest(limits: dict[str, int], values: list[str], kept: list[str]) -> None:
    """The cache holds grammars up to its limits of number and characters, and drops the least recently used first."""
    compiler = compiler_of(**limits)
    for value in values:
        compiler.compile(json_grammar({"const": value}))
    assert compiler.cached_grammars() == [json_grammar({"const": value}).text for value in kept]


def test_fork_is_independent() -> None:
    """A copy has the state of its origin, and its own state afterwards."""
    first = COMPILER.compile(regex_grammar("[ab]c[de]"))
    first.accept(TOKENIZER.encode("a")[0])
    second = first.fork()
    assert accepts(first, "cd")
    assert not second.is_finished()
    assert accepts(second, "ce")


@pytest.mark.parametrize("num_more", [-2, 0, 3])
def test_mask_fits_any_head(num_more: int) -> None:
    """A model's head may have more or fewer rows than the tokenizer has tokens; surplus rows are never allowed."""
    num_words = (TOKENIZER.vocab_size + 31) // 32
    message = np.full(num_words + num_more, -1, dtype=np.int32)
    COMPILER.compile(regex_grammar("[a-z]")).fill_mask(message)
    exact = np.zeros(num_words, dtype=np.int32)
    COMPILER.compile(regex_grammar("[a-z]")).fill_mask(exact)
    assert message.tolist() == [*exact[: len(message)].tolist(), *[0] * max(0, num_more)]
    assert message.any()


def test_token_that_the_mask_forbids_fails_the_constraint() -> None:
    """Accepting a forbidden token is an error, not a silent end."""
    constraint = COMPILER.compile(regex_grammar("ab"))
    with pytest.raises(ConstraintFailed):
        constraint.accept(TOKENIZER.encode("z")[0])


def test_end_token_is_allowed_only_where_the_text_may_end() -> None:
    """The model can't end a JSON value in the middle."""
    constraint = COMPILER.compile(regex_grammar("a|ab"))
    assert END_ID not in allowed_ids(constraint, TOKENIZER)
    constraint.accept(TOKENIZER.encode("a")[0])
    assert END_ID in allowed_ids(constraint, TOKENIZER)

"""Compiled constraints: what a mask lets through matches, and what can't be enforced is refused by name."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import numpy as np
import pytest
from sluice.v1 import sampling_pb2

from service.generation.errors import ConstraintFailed, InvalidRequest, UnsupportedConstraint
from service.pipeline.constraint import GrammarCompiler, GrammarConstraint
from service.pipeline.grammar import constraint_grammar
from tests.pipeline.fakes import ADDED, END, allowed_ids, babble, control_tokens_of, token_id, tokenizer_of
from tests.pipeline.random_schemas import random_schema

TOKENIZER = tokenizer_of(*ADDED)
END_ID = token_id(TOKENIZER, END)
COMPILER = GrammarCompiler(TOKENIZER, control_tokens_of(TOKENIZER), [END_ID])


def schema_constraint(schema: Any, *, strict: bool = False) -> sampling_pb2.OutputConstraint:
    return sampling_pb2.OutputConstraint(
        json_schema=sampling_pb2.JsonSchema(name="answer", schema=json.dumps(schema), strict=strict)
    )


def compiled(constraint: sampling_pb2.OutputConstraint) -> GrammarConstraint:
    return COMPILER.compile(constraint_grammar(constraint))


def said_under(constraint: sampling_pb2.OutputConstraint, seed: int) -> str:
    said = babble(compiled(constraint), TOKENIZER, END_ID, random.Random(seed))
    return b"".join(TOKENIZER.token_bytes(token) for token in said[:-1]).decode()


@pytest.mark.parametrize("seed", range(100))
def test_json_schema_holds_for_random_schemas_and_a_senseless_model(seed: int) -> None:
    """Whatever tokens are drawn under the mask of a schema, the text is JSON that matches it."""
    schema = random_schema(random.Random(seed))
    value = json.loads(said_under(schema_constraint(schema), seed))
    jsonschema.validate(value, schema, jsonschema.Draft202012Validator)


@pytest.mark.parametrize("seed", range(10))
def test_json_object_is_always_an_object(seed: int) -> None:
    """`json_object` gives some JSON object."""
    assert isinstance(json.loads(said_under(sampling_pb2.OutputConstraint(json_object={}), seed)), dict)


@pytest.mark.parametrize("pattern", ["[0-9]{3}/[a-c]+", "^(ja|nein)$", r"a\.b[/]c?", "é{2}", "<think>x"])
def test_regex_matches_the_whole_text(pattern: str) -> None:
    """The text matches the expression from its beginning to its end."""
    for seed in range(5):
        text = said_under(sampling_pb2.OutputConstraint(regex=pattern), seed)
        assert re.fullmatch(pattern, text), text


@pytest.mark.parametrize(
    "texts", [["yes", "no"], ["a", "ab"], ['"\n\\', "é"], ["<|im_end|>", "</tool_call>"], ["\0", "\x7f"]]
)
def test_choice_is_one_of_the_texts(texts: list[str]) -> None:
    """The text is one of those given, and each of them can come, control tokens' spellings too."""
    constraint = sampling_pb2.OutputConstraint(choice=sampling_pb2.TextChoice(texts=texts))
    assert {said_under(constraint, seed) for seed in range(40)} == set(texts)


def test_bounded_schema_ends_by_itself() -> None:
    """After the last character that a bounded schema allows, nothing but the end may follow."""
    constraint = compiled(
        schema_constraint({"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]})
    )
    for token in TOKENIZER.encode('{"a": 1'):
        constraint.accept(token)
    assert not constraint.is_finished()
    constraint.accept(TOKENIZER.encode("}")[0])
    assert constraint.is_finished()


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
    """Between two parts of JSON stands a space at most, or one line end with its indentation."""
    constraint = compiled(schema_constraint({"type": "object", "properties": {"a": {"type": "integer"}}}))
    assert accepts(constraint, text) is fits


def accepts(constraint: GrammarConstraint, text: str) -> bool:
    try:
        for token in TOKENIZER.encode(text):
            constraint.accept(token)
    except ConstraintFailed:
        return False
    return True


def test_format_that_cannot_be_enforced_is_an_annotation_unless_strict() -> None:
    """A schema with an unknown format compiles, and is refused by name if it is strict."""
    schema = {"type": "object", "properties": {"id": {"type": "string", "format": "iri"}}}
    assert accepts(compiled(schema_constraint(schema)), '{"id": "x y"}')
    with pytest.raises(UnsupportedConstraint, match="the keyword format at /properties/id/format"):
        compiled(schema_constraint(schema, strict=True))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"not": {"type": "string"}}, "the keyword not at /not"),
        ({"properties": {"a/b": {"items": {"if": {}}}}}, "the keyword if at /properties/a~1b/items/if"),
        ({"anyOf": [{"type": "null"}, {"uniqueItems": True}]}, "the keyword uniqueItems at /anyOf/1/uniqueItems"),
        ({"$defs": {"x": {"contains": {}}}, "$ref": "#/$defs/x"}, r"the keyword contains at /\$defs/x/contains"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, r"the keyword \$ref at /properties/a/\$ref"),
        ({"items": {"type": "strin"}}, "the keyword type at /items/type"),
        ({"type": "string", "pattern": "(?=a)b"}, "the keyword pattern at /pattern"),
        ({"oneOf": [{"type": "string"}, {"minLength": 2}]}, "the keyword oneOf at /oneOf"),
        ({"type": "integer", "minimum": 2, "maximum": 1}, "minimum"),
        (False, "not"),
    ],
)
def test_schema_refusal_names_keyword_and_path(schema: Any, words: str) -> None:
    """What can't be enforced is refused with the keyword and where in the schema it stands."""
    with pytest.raises(UnsupportedConstraint, match=words) as refusal:
        compiled(schema_constraint(schema))
    assert refusal.value.field == "output_constraint.json_schema.schema"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "line 1, column 2"),
        ("[1]", "an object or a boolean"),
        ("NaN", "NaN"),
        ("[" * 50_000, "deep"),
        ('{"items":' * 120 + "{}" + "}" * 120, "deep"),
    ],
)
def test_schema_that_is_no_json_is_an_invalid_field(schema: str, words: str) -> None:
    """A schema's text that can't be read is the caller's error, told with its place."""
    constraint = sampling_pb2.OutputConstraint(json_schema=sampling_pb2.JsonSchema(name="x", schema=schema))
    with pytest.raises(InvalidRequest, match=words) as refusal:
        constraint_grammar(constraint)
    assert refusal.value.field == "output_constraint.json_schema.schema"


def test_regex_that_does_not_compile_is_refused() -> None:
    """A bad expression is reported under the field that has it."""
    with pytest.raises(UnsupportedConstraint, match="look-around") as refusal:
        compiled(sampling_pb2.OutputConstraint(regex="(?=a)b"))
    assert refusal.value.field == "output_constraint.regex"


def test_schema_too_complex_for_a_mask_is_refused() -> None:
    """What compiles but can't be followed is refused at once, not in the middle of an answer."""
    schema = {"type": "object", "properties": {f"k{index}": {"type": "integer"} for index in range(1000)}}
    with pytest.raises(UnsupportedConstraint, match="too complex") as refusal:
        compiled(schema_constraint(schema))
    assert refusal.value.field == "output_constraint.json_schema.schema"


@pytest.mark.parametrize("regex", ["a[^\\s\\S]", "[^\\s\\S]"])
def test_constraint_that_nothing_matches_is_refused(regex: str) -> None:
    """An empty set of texts is no constraint to generate by."""
    with pytest.raises(UnsupportedConstraint):
        compiled(sampling_pb2.OutputConstraint(regex=regex))


def test_caller_cannot_loosen_the_compiler() -> None:
    """The compiler's own options inside a caller's schema have no effect."""
    schema = {"not": {}, "x-guidance": {"lenient": True}}
    with pytest.raises(UnsupportedConstraint):
        compiled(schema_constraint(schema))


def test_grammar_above_the_size_limit_is_refused() -> None:
    """The limit stands in the message."""
    compiler = GrammarCompiler(TOKENIZER, control_tokens_of(TOKENIZER), [END_ID], max_grammar_characters=100)
    with pytest.raises(UnsupportedConstraint, match="the limit is 100"):
        compiler.compile(constraint_grammar(schema_constraint({"enum": ["x" * 100]})))


def test_cache_keeps_only_the_latest() -> None:
    """The cache holds as many grammars as it may, the least recently used go first, and each use is a fresh state."""
    compiler = GrammarCompiler(TOKENIZER, control_tokens_of(TOKENIZER), [END_ID], max_cached_grammars=2)
    grammars = [constraint_grammar(schema_constraint({"const": value})) for value in "abc"]
    compiler.compile(grammars[0]).accept(TOKENIZER.encode('"')[0])
    for grammar in (grammars[1], grammars[0], grammars[2]):
        compiler.compile(grammar)
    assert list(compiler._cache) == [grammars[0].text, grammars[2].text]
    assert accepts(compiler.compile(grammars[0]), '"a"')


def test_cache_is_bounded_by_characters() -> None:
    """Large grammars push others out."""
    compiler = GrammarCompiler(TOKENIZER, control_tokens_of(TOKENIZER), [END_ID], max_cached_characters=300)
    for value in ("a" * 150, "b" * 150):
        compiler.compile(constraint_grammar(schema_constraint({"const": value})))
    assert len(compiler._cache) == 1


def test_fork_goes_its_own_way() -> None:
    """A copy has the state of its origin and then one of its own."""
    first = compiled(sampling_pb2.OutputConstraint(regex="[ab]c[de]"))
    first.accept(TOKENIZER.encode("a")[0])
    second = first.fork()
    assert accepts(first, "cd")
    assert not second.is_finished()
    assert accepts(second, "ce")


@pytest.mark.parametrize("num_more", [-2, 0, 3])
def test_mask_fits_any_head(num_more: int) -> None:
    """A model's head may have more or fewer rows than the tokenizer has tokens; what is beyond is never allowed."""
    num_words = (TOKENIZER.vocab_size + 31) // 32
    words = np.full(num_words + num_more, -1, dtype=np.int32)
    compiled(sampling_pb2.OutputConstraint(regex="[a-z]")).fill_mask(words)
    exact = np.zeros(num_words, dtype=np.int32)
    compiled(sampling_pb2.OutputConstraint(regex="[a-z]")).fill_mask(exact)
    assert words.tolist() == [*exact[: len(words)].tolist(), *[0] * max(0, num_more)]
    assert words.any()


def test_token_that_the_mask_forbids_fails_the_constraint() -> None:
    """A broken promise is an error, not a silent end."""
    constraint = compiled(sampling_pb2.OutputConstraint(regex="ab"))
    with pytest.raises(ConstraintFailed):
        constraint.accept(TOKENIZER.encode("z")[0])


def test_end_token_is_allowed_only_where_the_text_may_end() -> None:
    """The model can't end a JSON value in its middle."""
    constraint = compiled(sampling_pb2.OutputConstraint(regex="a|ab"))
    assert END_ID not in allowed_ids(constraint, TOKENIZER)
    constraint.accept(TOKENIZER.encode("a")[0])
    assert END_ID in allowed_ids(constraint, TOKENIZER)

"""Compiled constraints: what a mask lets through matches, and what can't be enforced is refused by name."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from service.pipeline.grammar import constraint_grammar
from sluice.v1 import sampling_pb2

from service.engine.constraints.grammar import GrammarCompiler, GrammarConstraint
from service.generation.errors import ConstraintFailed, InvalidRequest, UnsupportedConstraint
from tests.engine.constraints.random_schemas import random_schema
from tests.pipeline.fakes import ADDED, END, babble, control_tokens_of, token_id, tokenizer_of

TOKENIZER = tokenizer_of(*ADDED)
END_ID = token_id(TOKENIZER, END)
COMPILER = GrammarCompiler(TOKENIZER, control_tokens_of(TOKENIZER).ids, [END_ID])


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


def test_caller_cannot_loosen_the_compiler() -> None:
    """The compiler's own options inside a caller's schema have no effect."""
    schema = {"not": {}, "x-guidance": {"lenient": True}}
    with pytest.raises(UnsupportedConstraint):
        compiled(schema_constraint(schema))

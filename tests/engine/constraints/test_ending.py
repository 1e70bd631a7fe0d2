"""Answers that end in time: for any logits, a text within its token limit matches its grammar."""

from __future__ import annotations

import json
import random
import re
from functools import cache

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from service.engine.constraints import ending
from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.formats.constraint import (
    Constraint,
    Grammar,
    Opening,
    ReasoningLimit,
    ReasoningMarkers,
    ReasoningStart,
)
from tests.engine.constraints.fakes import (
    ADDED,
    END,
    allowed_ids,
    control_ids_of,
    json_grammar,
    regex_grammar,
    token_id,
    tokenizer_of,
)
from tests.engine.constraints.random_schemas import random_schema

TOKENIZER = tokenizer_of(*ADDED)
SPELLED = tokenizer_of()
END_ID = token_id(TOKENIZER, END)
COMPILE = ConstraintCompiler(TOKENIZER, control_ids_of(TOKENIZER), [END_ID])
LOOSE = ConstraintCompiler(TOKENIZER, control_ids_of(TOKENIZER), [END_ID], ends_in_time=False)
MARKERS = ReasoningMarkers("<think>", "</think>")
ARGUMENTS = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
CALL = Grammar(
    f"arguments: %json {json.dumps(ARGUMENTS)}\n"
    r'start: "\n{\"name\": \"f\", \"arguments\": " arguments "}\n" ' + f"<[{token_id(TOKENIZER, '</tool_call>')}]>\n",
    "tools",
    opening=Opening(("<tool_call>",)),
)


def text_of(tokens: list[int], tokenizer: FastTokenizer = TOKENIZER) -> str:
    return b"".join(map(tokenizer.token_bytes, tokens)).decode(errors="replace")


def shortest(state: ConstraintState) -> int:
    found = state.shortest()
    assert found is not None
    return found


def draw(
    state: ConstraintState, limit: int, rng: random.Random, tokenizer: FastTokenizer = TOKENIZER
) -> tuple[list[int], bool]:
    """Return the tokens of a model of random logits within `limit` tokens, and whether a token was replaced."""
    end_id, said, is_bent = token_id(tokenizer, END), list[int](), False
    while len(said) < limit and not state.is_finished():
        drawn = rng.choice(allowed_ids(state, tokenizer))
        taken = state.replace_token(drawn, limit - len(said))
        is_bent = is_bent or taken != drawn
        if taken == end_id:
            break
        state.accept(taken)
        said.append(taken)
    return said, is_bent


@cache
def compiler_of(tokenizer: FastTokenizer) -> ConstraintCompiler:
    return ConstraintCompiler(tokenizer, control_ids_of(tokenizer), [token_id(tokenizer, END)])


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), num_left=st.integers(0, 40))
def test_json_within_any_budget_parses_and_matches(seed: int, num_left: int) -> None:
    """For random schemas and logits, any limit of at least the shortest answer's length gives matching JSON."""
    rng = random.Random(seed)
    schema = random_schema(rng)
    state = COMPILE(Constraint(json_grammar(schema)))
    assume(state.shortest() is not None)  # a few endings are too far to find
    said, _ = draw(state, shortest(state) + num_left, rng)
    jsonschema.validate(json.loads(text_of(said)), schema, jsonschema.Draft202012Validator)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), num_left=st.integers(0, 60), start=st.sampled_from(ReasoningStart))
def test_reasoning_leaves_tokens_for_the_answer(seed: int, num_left: int, start: ReasoningStart) -> None:
    """Reasoning ends in time for the answer, however it was opened and however long it would continue."""
    rng = random.Random(seed)
    schema = random_schema(rng, 2)
    must_open = start is ReasoningStart.MAY_OPEN and rng.random() < 0.5
    limit = ReasoningLimit(MARKERS, start, must_open=must_open)
    state = COMPILE(Constraint(json_grammar(schema), limit))
    said, _ = draw(state, shortest(state) + num_left, rng)
    text = text_of(said)
    answer = text.partition("</think>")[2] if "</think>" in text else text
    jsonschema.validate(json.loads(answer), schema, jsonschema.Draft202012Validator)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["a*b", "[a-f]{40}", "(x|yyyy)-[0-9]+", r"[^\n]*Z", "é{3}", "(ja|nein)?"])
@pytest.mark.parametrize("tokenizer", [TOKENIZER, SPELLED], ids=["tokens", "spelled"])
def test_expression_within_any_budget_matches(pattern: str, tokenizer: FastTokenizer) -> None:
    """An answer within any sufficient limit matches the whole expression."""
    for num_left in (0, 1, 2, 5, 20):
        state = compiler_of(tokenizer)(Constraint(regex_grammar(pattern)))
        said, _ = draw(state, shortest(state) + num_left, random.Random(num_left), tokenizer)
        assert re.fullmatch(pattern, text_of(said, tokenizer))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "object"}, "{}"),
        ({"type": "boolean"}, "true"),
        ({"type": "string", "minLength": 2}, '"00"'),
        ({"enum": ["a long one", "no"]}, '"no"'),
        ({"anyOf": [{"type": "object", "properties": {"a": {}}, "required": ["a"]}, {"type": "null"}]}, "null"),
        ({"type": "array", "items": {"const": 7}, "minItems": 3}, "[7,7,7]"),
        ({"type": "object", "properties": {"a": {"const": "x"}, "b": {"const": 1}}, "required": ["b"]}, '{"b":1}'),
    ],
)
def test_shortest_answer_is_the_shortest(schema: dict[str, object], text: str) -> None:
    """The shortest answer omits optional members, white space and longer alternatives."""
    assert shortest(COMPILE(Constraint(json_grammar(schema)))) <= len(TOKENIZER.encode(text))


def test_shortest_of_many_texts_is_found_by_its_tokens() -> None:
    """The shortest text is the one with the fewest tokens, regardless of its characters and position."""
    texts = [f"{letter}{letter}" for letter in "abcdefghijklmnopqrsuvwxyz"] + ["the name"]
    state = COMPILE(Constraint(Grammar(f"start: {' | '.join(map(json.dumps, texts))}\n", "f", texts=texts)))
    assert shortest(state) == min(len(TOKENIZER.encode(text)) for text in texts)


def test_what_fits_is_never_replaced() -> None:
    """If the limit is above the answer's length, the answer is the same as without a limit."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 30}}, "required": ["a"]}
    for seed in range(20):
        free, _ = draw(LOOSE(Constraint(json_grammar(schema))), 2000, random.Random(seed))
        kept, is_bent = draw(COMPILE(Constraint(json_grammar(schema))), 2000, random.Random(seed))
        assert (kept, is_bent) == (free, False)


def test_answers_without_steering_are_truncated() -> None:
    """Without replaced tokens, the limits of these tests truncate answers."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    broken = 0
    for seed in range(20):
        said, _ = draw(LOOSE(Constraint(json_grammar(schema))), 20, random.Random(seed))
        try:
            json.loads(text_of(said))
        except ValueError:
            broken += 1
    assert broken > 10


def test_call_that_could_not_end_is_not_begun() -> None:
    """A call that could not end in time is replaced by the end of the text; with enough tokens it begins and ends."""
    for num_left in range(1, 60):
        state = COMPILE(Constraint(CALL))
        opens = token_id(TOKENIZER, "<tool_call>")
        taken = state.replace_token(opens, num_left)
        if taken == END_ID:
            least = num_left
            continue
        assert taken == opens
        state.accept(opens)
        said, _ = draw(state, num_left - 1, random.Random(num_left))
        assert json.loads(text_of(said).partition("</tool_call>")[0])["name"] == "f"
    assert 10 < least < 50


def test_copies_end_in_their_own_time() -> None:
    """Two choices of one request with different limits both end in time."""
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 2}
    first = COMPILE(Constraint(json_grammar(schema)))
    second = first.fork()
    for state, limit in ((first, 60), (second, shortest(first))):
        said, _ = draw(state, limit, random.Random(1))
        assert len(said) <= limit
        assert len(json.loads(text_of(said))) >= 2


@pytest.mark.parametrize("pattern", [r"[^\n]*Z", "[^a]{3,}~", r"(\w| )*\?"])
def test_end_that_only_one_of_many_bytes_leads_to_is_found_early(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found by the first two rounds of a search, so that it is found on slow machines, too."""
    monkeypatch.setattr(ending, "_FIRST_EFFORTS", ((False, 3_000), (True, 5_000)))
    state = COMPILE(Constraint(regex_grammar(pattern)))
    said, _ = draw(state, shortest(state), random.Random(0))
    assert re.fullmatch(pattern, text_of(said))


@pytest.mark.slow
def test_end_that_is_too_far_to_find_leaves_the_answer_to_its_limit() -> None:
    """The search is bounded; without a result nothing is replaced."""
    state = COMPILE(Constraint(regex_grammar("([a-z]{200}[0-9]{200}){30}")))
    assert state.shortest() is None
    said, is_bent = draw(state, 50, random.Random(0))
    assert (len(said) > 10, is_bent) == (True, False)


def test_grammar_with_slow_states_has_no_ending_and_delays_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processor time is bounded for the compilation and for each choice; the answer continues without an ending."""
    grammar = Constraint(regex_grammar("[a-f]{4}x"))
    compile_ = ConstraintCompiler(TOKENIZER, control_ids_of(TOKENIZER), [END_ID])
    monkeypatch.setattr(ending, "_FIRST_S", 0.0)
    state = compile_(grammar)
    assert state.shortest() is None
    said, is_bent = draw(state, 50, random.Random(0))
    assert re.fullmatch("[a-f]{4}x", text_of(said))
    assert not is_bent
    monkeypatch.undo()
    monkeypatch.setattr(ending, "_CHOICE_S", 0.0)
    spent = ConstraintCompiler(TOKENIZER, control_ids_of(TOKENIZER), [END_ID])(
        Constraint(regex_grammar("!|#([a-f]{9})?[0-9]{9}"))
    )
    assert spent.shortest() == 1
    said, _ = draw(spent, 10_000, random.Random(3))
    assert re.fullmatch("!|#([a-f]{9})?[0-9]{9}", text_of(said))


def test_end_that_is_too_long_to_keep_leaves_the_answer_to_its_limit() -> None:
    """An ending above the maximal length is dropped, because each token off it would need all of it to be checked."""
    assert shortest(COMPILE(Constraint(regex_grammar("[ab]{1500}")))) > 0
    assert COMPILE(Constraint(regex_grammar("[ab]{2100}"))).shortest() is None
    texts = ["a" * 2100, "b" * 2100]
    grammar = Grammar(f"start: {' | '.join(map(json.dumps, texts))}\n", "f", texts=texts)
    assert COMPILE(Constraint(grammar)).shortest() is None

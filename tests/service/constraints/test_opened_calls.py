"""Calls that a model makes by itself: free text stays free, and the text of a call matches its schema."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import jsonschema
import pytest

from service.constraints.tool_grammar import opened_calls
from service.constraints.tool_rules import ToolRules
from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import InvalidRequest, UnsupportedConstraint
from service.generation.formats.constraint import Constraint, ReasoningLimit, ReasoningMarkers, ReasoningStart
from service.generation.prompts.conversation import Function
from service.output.families.object_calls import HERMES, LLAMA3, MISTRAL, PHI4_MINI, PLAIN_JSON
from service.output.families.tool_families import SYNTAXES
from service.output.families.tool_syntax import ToolSyntax
from tests.engine.constraints.fakes import END, allowed_ids, babble, control_ids_of, token_id, tokenizer_of
from tests.service.output.families.families import MARKERS, read
from tests.service.prompts.fakes import control_tokens_of

WITH_TOKENS = tokenizer_of(*MARKERS, "<think>", "</think>")
SPELLED = tokenizer_of()
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 0}},
    "required": ["city"],
}
WEATHER = Function("weather", parameters=json.dumps(PARAMETERS), field="tools[0].function")
PING = Function("ping", parameters='{"type": "object", "properties": {}}', field="tools[1].function")
TEXT = "The weather in Oslo: {sun} <b>25</b> [1] é "
BARE = {
    "llama3": ['{"name": "', '  {"type": "function", "name":"', '[{"name": "', '{"parameters": {', "<|python_tag|>"],
    "llama4-pythonic": ["[ping(", " [ weather(", "<|python_start|>"],
    "harmony": ["<|channel|>commentary to=functions."],
    "pythonic": ["[weather(", "ping("],
    "glm-4": ["weather\n{", "ping\n{"],
    "json": ['{"name"', '{\n  "name" : "', ' [ {"id": "x", "name": ', '{"arguments": '],
}

ALSO_BEGIN = [  # harmony's is a part of a header
    (syntax, marker) for syntax in SYNTAXES.values() for marker in syntax.also_begin if syntax.name != "harmony"
]

every_syntax = pytest.mark.parametrize("syntax", SYNTAXES.values(), ids=SYNTAXES)
either_tokenizer = pytest.mark.parametrize("tokenizer", [WITH_TOKENS, SPELLED], ids=["tokens", "spelled"])


@cache
def compiler_of(tokenizer: FastTokenizer) -> ConstraintCompiler:
    return ConstraintCompiler(tokenizer, control_ids_of(tokenizer), [token_id(tokenizer, END)])


def state_of(
    syntax: ToolSyntax, tokenizer: FastTokenizer = WITH_TOKENS, *functions: Function, **how: Any
) -> ConstraintState:
    rules = ToolRules(
        functions or (WEATHER, PING), syntax, **{"required": False, "single": False, "field": "tools", **how}
    )
    ids = control_tokens_of(tokenizer, "".join(MARKERS)).ids
    return compiler_of(tokenizer)(Constraint(opened_calls(rules, ids)))


def say(state: ConstraintState, tokenizer: FastTokenizer, text: str) -> list[int]:
    token_ids = tokenizer.encode(text)
    for each in token_ids:
        assert each in allowed_ids(state, tokenizer), (text, tokenizer.decode([each]))
        state.accept(each)
    return token_ids


def text_of(tokenizer: FastTokenizer, token_ids: list[int]) -> str:
    return b"".join(map(tokenizer.token_bytes, token_ids)).decode(errors="replace")


def parsed(syntax: ToolSyntax, text: str) -> tuple[str, list[tuple[str, str]]]:
    return read(syntax, text, {"weather": PARAMETERS, "ping": {}})[1:]


def check(calls: list[tuple[str, str]]) -> None:
    for name, arguments in calls:
        jsonschema.validate(json.loads(arguments), PARAMETERS if name == "weather" else {"type": "object"})


@every_syntax
@either_tokenizer
def test_free_text_has_no_mask(syntax: ToolSyntax, tokenizer: FastTokenizer) -> None:
    """After any text, every token of the vocabulary may follow, including control tokens."""
    state = state_of(syntax, tokenizer)
    for each in [*tokenizer.encode(TEXT + '{"name": "Bob"}'), token_id(tokenizer, "<|im_start|>")]:
        assert state.is_free
        assert len(allowed_ids(state, tokenizer)) == tokenizer.vocab_size
        state.accept(each)
    assert state.is_free
    assert not state.is_finished()


@every_syntax
@either_tokenizer
@pytest.mark.parametrize("seed", range(3))
def test_opened_calls_match_their_schemas(syntax: ToolSyntax, tokenizer: FastTokenizer, seed: int) -> None:
    """After its marker or its first member, a call by a model of random logits is complete and of a known function."""
    rng = random.Random(seed)
    openings = BARE.get(syntax.name, [syntax.begin, TEXT + syntax.begin])
    state = state_of(syntax, tokenizer)
    tokens = say(state, tokenizer, rng.choice(openings))
    assert not state.is_free
    while not (state.is_free or state.is_finished()):
        allowed = allowed_ids(state, tokenizer)
        if token_id(tokenizer, END) in allowed and rng.random() < 0.5:
            break
        closing = [each for each in allowed if tokenizer.token_bytes(each) in (b'"', b"}", b"]", b"0")]
        prefers_end = len(tokens) > 150 and rng.random() < 0.9  # not always: a number of zeros would never end
        chosen = rng.choice(closing if closing and prefers_end else allowed)
        if chosen == token_id(tokenizer, END):
            break
        state.accept(chosen)
        tokens.append(chosen)
    content, calls = parsed(syntax, text_of(tokenizer, tokens))
    assert calls
    assert content.strip() in ("", TEXT.strip())
    check(calls)


@pytest.mark.parametrize(("syntax", "marker"), ALSO_BEGIN, ids=[f"{each.name} {text}" for each, text in ALSO_BEGIN])
@either_tokenizer
def test_alternative_markers_of_a_family_open_calls(syntax: ToolSyntax, tokenizer: FastTokenizer, marker: str) -> None:
    """A call after an alternative marker of the family matches its schema."""
    state = state_of(syntax, tokenizer, PING, single=True)
    tokens = say(state, tokenizer, TEXT + marker + ("[" if marker.isalpha() else ""))
    assert not state.is_free
    tokens += babble(state, tokenizer, token_id(tokenizer, END), random.Random(2))
    content, calls = parsed(syntax, text_of(tokenizer, tokens[:-1]))
    assert (content.strip(), [name for name, _ in calls]) == (TEXT.strip(), ["ping"])


@either_tokenizer
def test_marker_that_is_a_word_opens_a_call_only_if_a_call_follows(tokenizer: FastTokenizer) -> None:
    """The word is free text unless a call follows it directly."""
    state = state_of(PHI4_MINI, tokenizer)
    for text in ("functools", ".partial, functools", " is a module, functools", "(x), functools"):
        say(state, tokenizer, text)
        assert state.is_free
    say(state, tokenizer, '[{"name": "')
    assert not state.is_free


@pytest.mark.parametrize("syntax", [HERMES, MISTRAL])
@either_tokenizer
def test_text_and_calls_may_follow_a_call(syntax: ToolSyntax, tokenizer: FastTokenizer) -> None:
    """After a call all tokens are allowed again, until the next marker."""
    state = state_of(syntax, tokenizer)
    call = f'{syntax.before_call}{{"name": "ping", "arguments": {{}}}}{syntax.after_call}{syntax.end}'
    for _ in range(2):
        say(state, tokenizer, "So: " + syntax.begin)
        assert not state.is_free
        say(state, tokenizer, call)
        assert state.is_free
        assert not state.is_finished()
    say(state, tokenizer, "Done.")
    assert state.is_free


@every_syntax
def test_single_call_ends_the_answer(syntax: ToolSyntax) -> None:
    """Without parallel calls, nothing may follow the first call."""
    state = state_of(syntax, single=True)
    say(state, WITH_TOKENS, BARE[syntax.name][0] if syntax.bare else syntax.begin)
    tokens = babble(state, WITH_TOKENS, token_id(WITH_TOKENS, END), random.Random(1))
    assert state.is_finished()
    assert tokens[-1] == token_id(WITH_TOKENS, END)


@pytest.mark.parametrize(
    "text", ['{"city": "Oslo"}', '{"type": "circle", "r": 1}', '["name"]', '{"named": 1}', '{"id": 7, "name": "x"}']
)
def test_json_that_is_not_a_call_is_content(text: str) -> None:
    """Where calls are bare objects, other JSON is free."""
    state = state_of(PLAIN_JSON)
    say(state, WITH_TOKENS, text)
    assert state.is_free
    assert parsed(PLAIN_JSON, text) == (text, [])


def test_bare_call_opens_only_at_the_start() -> None:
    """The parser looks for no bare call in the middle of a text."""
    state = state_of(LLAMA3)
    say(state, WITH_TOKENS, 'So: {"name": "weather", "parameters": {"days": -1}}')
    assert state.is_free


def test_token_across_the_marker_is_allowed_only_if_it_continues_a_call() -> None:
    """A token across the marker is part of the call if it continues as a call does, and is forbidden otherwise."""
    tokenizer = tokenizer_of(">\n{", ">yes", "<tool_call>no")
    state = state_of(HERMES, tokenizer, single=True)
    fits, misleads, whole = (token_id(tokenizer, text) for text in (">\n{", ">yes", "<tool_call>no"))
    assert misleads in allowed_ids(state, tokenizer)
    assert whole not in allowed_ids(state, tokenizer)
    say(state, tokenizer, "<tool_call")
    allowed = allowed_ids(state, tokenizer)
    assert (fits in allowed, misleads in allowed, whole in allowed) == (True, False, False)
    assert len(allowed) == tokenizer.vocab_size - 2
    state.accept(fits)
    babble(state, tokenizer, token_id(tokenizer, END), random.Random(0))
    assert state.is_finished()


def test_forked_constraint_is_independent() -> None:
    """One of two choices calls and the other doesn't."""
    first = state_of(HERMES)
    say(first, WITH_TOKENS, "So: ")
    second = first.fork()
    say(first, WITH_TOKENS, '<tool_call>\n{"name": "w')
    third = first.fork()
    say(third, WITH_TOKENS, 'eather", "arguments": {"city')
    say(first, WITH_TOKENS, 'eather", "arguments": {"city')
    say(second, WITH_TOKENS, "no.")
    assert (first.is_free, second.is_free, third.is_free) == (False, True, False)


@pytest.mark.parametrize("start", [ReasoningStart.OPEN, ReasoningStart.MAY_OPEN])
@either_tokenizer
def test_marker_in_the_reasoning_opens_no_call(start: ReasoningStart, tokenizer: FastTokenizer) -> None:
    """A marker in the reasoning opens no call, and the reasoning is as free as without tools."""
    rules = ToolRules([PING], HERMES, required=False, single=False, field="tools")
    grammar = opened_calls(rules, control_tokens_of(tokenizer, "".join(MARKERS)).ids)
    limit = ReasoningLimit(ReasoningMarkers("<think>", "</think>"), start)
    state = compiler_of(tokenizer)(Constraint(grammar, limit))
    if start is ReasoningStart.MAY_OPEN:
        say(state, tokenizer, "\n<think>")
    say(state, tokenizer, "I could <tool_call>\n or not")
    assert len(allowed_ids(state, tokenizer)) == tokenizer.vocab_size
    say(state, tokenizer, "</think>")
    assert state.is_free
    say(state, tokenizer, "\n\nSo: <tool_call>")
    assert not state.is_free
    say(state, tokenizer, '\n{"name": "ping", "arguments": {}}\n</tool_call>')
    assert state.is_free


def test_schema_that_cannot_be_enforced_is_replaced_unless_strict() -> None:
    """Any object is allowed instead, and other schemas are enforced; a strict schema makes the request invalid."""
    parameters = '{"type": "object", "properties": {"a": {"uniqueItems": true}}}'
    bad = Function("ping", parameters=parameters, field="tools[1].function")
    for function, text in ((WEATHER, '{"days"'), (bad, '{"b": [1, 1]')):
        state = state_of(HERMES, WITH_TOKENS, WEATHER, bad)
        say(state, WITH_TOKENS, f'<tool_call>\n{{"name": "{function.name}", "arguments": ')
        if function is bad:
            say(state, WITH_TOKENS, text)
        else:
            with pytest.raises(AssertionError):
                say(state, WITH_TOKENS, text)
    strict = Function("ping", parameters=parameters, strict=True, field="tools[1].function")
    with pytest.raises(UnsupportedConstraint, match="the keyword uniqueItems") as caught:
        state_of(HERMES, WITH_TOKENS, WEATHER, strict)
    assert caught.value.field == "tools[1].function.parameters"


@pytest.mark.parametrize("parameters", ["[]", '{"type": "string"}', "{"])
def test_parameters_that_are_not_a_schema_are_replaced_unless_strict(parameters: str) -> None:
    """Any object is allowed instead of parameters that are not a schema."""
    state = state_of(HERMES, WITH_TOKENS, Function("f", parameters=parameters, field="tools[0].function"))
    say(state, WITH_TOKENS, '<tool_call>\n{"name": "f", "arguments": {"x": 1}}')
    with pytest.raises(InvalidRequest) as caught:
        state_of(HERMES, WITH_TOKENS, Function("f", parameters=parameters, strict=True, field="tools[0].function"))
    assert caught.value.field == "tools[0].function.parameters"


def test_unconstrained_models_arguments_are_enforced_only_if_strict() -> None:
    """Only strict functions are enforced for a model whose calls are not constrained."""
    strict = Function("ping", parameters=json.dumps(PARAMETERS), strict=True, field="tools[1].function")
    state = state_of(HERMES, WITH_TOKENS, WEATHER, strict, enforces=False)
    say(state, WITH_TOKENS, '<tool_call>\n{"name": "weather", "arguments": {"x": 1}}\n</tool_call><tool_call>')
    with pytest.raises(AssertionError):
        say(state, WITH_TOKENS, '\n{"name": "ping", "arguments": {"x"')

"""Grammars of tool calls: what they let through is what the family's parser reads."""

from __future__ import annotations

import json
import random

import jsonschema
import pytest
from sluice.v1 import sampling_pb2

from service.engine.tokenizer import FastTokenizer
from service.generation.errors import InvalidRequest, UnsupportedConstraint
from service.pipeline.constraint import GrammarCompiler
from service.pipeline.grammar import ToolRules, constraint_grammar, tool_grammar
from service.pipeline.tool_parser import ToolCallParser
from service.pipeline.tool_syntax import (
    HERMES,
    LLAMA3,
    MISTRAL,
    MISTRAL_NAMED,
    PLAIN_JSON,
    SYNTAXES,
    ToolSyntax,
    tool_syntax,
)
from tests.pipeline.fakes import END, babble, control_tokens_of, function, join, token_id, tokenizer_of

MARKERS = ("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>")
WITH_TOKENS = tokenizer_of(*MARKERS)
SPELLED = tokenizer_of()
COMPILERS = {
    tokenizer: GrammarCompiler(tokenizer, control_tokens_of(tokenizer, "".join(MARKERS)), [token_id(tokenizer, END)])
    for tokenizer in (WITH_TOKENS, SPELLED)
}
PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 8},
        "days": {"type": "integer", "minimum": 0, "maximum": 99},
        "unit": {"enum": ["C", "F"]},
    },
    "required": ["city", "unit"],
}
WEATHER = function("weather", json.dumps(PARAMETERS), strict=True).function
PING = function("ping").function
TOOLS = [(0, WEATHER), (1, PING)]

every_syntax = pytest.mark.parametrize("syntax", SYNTAXES.values(), ids=SYNTAXES)
either_tokenizer = pytest.mark.parametrize("tokenizer", [WITH_TOKENS, SPELLED], ids=["tokens", "spelled"])


def said_under(
    rules: ToolRules, tokenizer: FastTokenizer, seed: int, content: sampling_pb2.OutputConstraint | None = None
) -> str:
    ids = control_tokens_of(tokenizer, "".join(MARKERS)).ids
    grammar = tool_grammar(rules, ids, constraint_grammar(content) if content else None)
    constraint = COMPILERS[tokenizer].compile(grammar)
    said = babble(constraint, tokenizer, token_id(tokenizer, END), random.Random(seed), max_tokens=12_000)
    return b"".join(tokenizer.token_bytes(token) for token in said[:-1]).decode(errors="replace")


def parsed(syntax: ToolSyntax, text: str) -> tuple[str, list[tuple[str, str]]]:
    parser = ToolCallParser(syntax, ["weather", "ping"])
    _, content, calls = join(parser.feed(text) + parser.close())
    return content, calls


def check(calls: list[tuple[str, str]]) -> None:
    for name, arguments in calls:
        jsonschema.validate(json.loads(arguments), PARAMETERS if name == "weather" else {"type": "object"})


@every_syntax
@either_tokenizer
def test_required_calls_are_calls_and_nothing_else(syntax: ToolSyntax, tokenizer: FastTokenizer) -> None:
    """Whatever is drawn, there is at least one call, each matches its schema, and no text is left over."""
    rules = ToolRules(TOOLS, syntax, required=True, single=False, field="tools")
    for seed in range(8):
        content, calls = parsed(syntax, said_under(rules, tokenizer, seed))
        assert content == ""
        assert calls
        check(calls)


@every_syntax
@either_tokenizer
def test_single_call_is_one_call(syntax: ToolSyntax, tokenizer: FastTokenizer) -> None:
    """Without parallel calls there is exactly one where one is required, and the grammar ends by itself."""
    rules = ToolRules(TOOLS[:1], syntax, required=True, single=True, field="tools")
    for seed in range(8):
        content, calls = parsed(syntax, said_under(rules, tokenizer, seed))
        assert (content, [name for name, _ in calls]) == ("", ["weather"])
        check(calls)


@every_syntax
@either_tokenizer
def test_free_text_may_lead_to_calls_that_match(syntax: ToolSyntax, tokenizer: FastTokenizer) -> None:
    """Where the model decides, there is text, or calls that match, and never a call that doesn't."""
    rules = ToolRules(TOOLS, syntax, required=False, single=True, field="tools")
    for seed in range(25):
        _, calls = parsed(syntax, said_under(rules, tokenizer, seed))
        assert len(calls) <= 1
        check(calls)


@every_syntax
def test_free_text_reaches_calls(syntax: ToolSyntax) -> None:
    """The model can call at once, and after text where the family does so."""
    rules = ToolRules([(1, PING)], syntax, required=False, single=False, field="tools")
    call = {
        "hermes": '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>',
        "llama3": '{"name": "ping", "parameters": {}}',
        "mistral": '[TOOL_CALLS][{"name": "ping", "arguments": {}}]',
        "mistral-named": "[TOOL_CALLS]ping[ARGS]{}",
        "json": '{"name": "ping", "arguments": {}}',
    }[syntax.name]
    for tokenizer in (WITH_TOKENS, SPELLED):
        grammar = tool_grammar(rules, control_tokens_of(tokenizer, "".join(MARKERS)).ids, None)
        for text in [call] if syntax.bare else [call, "Let me see. " + call]:
            constraint = COMPILERS[tokenizer].compile(grammar)
            for token in tokenizer.encode(text):
                constraint.accept(token)
            constraint.accept(token_id(tokenizer, END))


def test_content_is_constrained_beside_calls() -> None:
    """With an output constraint and tools, the answer is either matching content or calls."""
    content = sampling_pb2.OutputConstraint(choice=sampling_pb2.TextChoice(texts=["yes", "no"]))
    rules = ToolRules(TOOLS, HERMES, required=False, single=False, field="tools")
    seen = set()
    for seed in range(40):
        text, calls = parsed(HERMES, said_under(rules, WITH_TOKENS, seed, content))
        assert bool(calls) != (text in ("yes", "no"))
        check(calls)
        seen.add(bool(calls))
    assert seen == {True, False}


def test_schema_at_fault_is_named_by_its_tool() -> None:
    """Of several tools, the one whose schema can't be enforced is named."""
    bad = function("bad", '{"type": "object", "properties": {"a": {"uniqueItems": true}}}').function
    rules = ToolRules([(0, WEATHER), (1, bad)], HERMES, required=True, single=False, field="tools")
    with pytest.raises(UnsupportedConstraint, match="the keyword uniqueItems at /properties/a/uniqueItems") as refusal:
        said_under(rules, WITH_TOKENS, 0)
    assert refusal.value.field == "tools[1].function.parameters"


def test_tool_that_is_not_strict_needs_no_enforceable_schema() -> None:
    """Where the model is free to call, only strict tools' schemas are enforced."""
    loose = function("ping", '{"type": "object", "not": {"required": ["x"]}}').function
    rules = ToolRules([(0, WEATHER), (1, loose)], HERMES, required=False, single=False, field="tools")
    said_under(rules, WITH_TOKENS, 0)


@pytest.mark.parametrize("parameters", ["[]", '{"type": "string"}', "{"])
def test_parameters_that_are_no_object_schema_are_refused(parameters: str) -> None:
    """A function's parameters are a schema of an object."""
    rules = ToolRules([(3, function("f", parameters).function)], HERMES, required=True, single=True, field="tools")
    with pytest.raises(InvalidRequest) as refusal:
        tool_grammar(rules, {}, None)
    assert refusal.value.field == "tools[3].function.parameters"


@pytest.mark.parametrize(
    ("template", "syntax"),
    [
        ("<tool_call>\n{{ call | tojson }}\n</tool_call>", HERMES),
        ("[AVAILABLE_TOOLS]{{ tools }}[TOOL_CALLS]{{ calls }}", MISTRAL),
        ("[TOOL_CALLS]{{ name }}[ARGS]{{ arguments }}", MISTRAL_NAMED),
        ("<|python_tag|>{{ call }}", LLAMA3),
        ("{{ '{\"name\": ' + name + ', \"parameters\": ' }}", LLAMA3),
        ("{{ tools }}{{ messages }}", PLAIN_JSON),
    ],
)
def test_syntax_is_read_from_the_template(template: str, syntax: ToolSyntax) -> None:
    """A template's own markers tell the family."""
    assert tool_syntax(template) is syntax


def test_call_ids_have_the_family_s_form() -> None:
    """Mistral's templates take nine letters and digits; ids don't repeat."""
    assert len(MISTRAL.new_call_id()) == 9
    assert MISTRAL.new_call_id().isalnum()
    assert HERMES.new_call_id().startswith("call_")
    assert HERMES.new_call_id() != HERMES.new_call_id()

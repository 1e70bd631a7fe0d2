"""What a model's own template renders for earlier calls is allowed by its grammar, and read as the same calls."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import pytest

from service.constraints.tool_grammar import opened_calls, tool_grammar
from service.constraints.tool_rules import ToolRules
from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.formats.constraint import Constraint
from service.generation.prompts.conversation import Function
from service.output.families.named_calls import GLM4, HARMONY
from service.output.families.tool_syntax import ToolSyntax
from tests.engine.constraints.fakes import END, allowed_ids, control_ids_of, token_id, tokenizer_of
from tests.service.constraints.fakes import accepts
from tests.service.output.families.families import MARKERS, read
from tests.service.output.families.layouts import LAYOUTS, Layout
from tests.service.prompts.fakes import control_tokens_of, template_of

WITH_TOKENS: Final = tokenizer_of(*MARKERS)
SPELLED: Final = tokenizer_of()
PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 0},
        "exact": {"type": "boolean"},
        "kind": {"enum": ["sun", "rain"]},
        "maybe": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "rate": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "rooms": {"type": "array", "items": {"type": "integer"}}},
            "required": ["name"],
        },
    },
    "required": ["city"],
}
SCHEMAS: Final = {"weather": PARAMETERS, "ping": {"type": "object", "properties": {}}}
TOOLS: Final = [
    Function(name, parameters=json.dumps(schema), field=f"tools[{index}].function")
    for index, (name, schema) in enumerate(SCHEMAS.items())
]
PLAIN: Final[dict[str, Any]] = {
    "city": "São Paulo", "days": 3, "exact": True, "kind": "rain", "maybe": None, "rate": -0.5, "tags": ["a", "b c"],
    "where": {"name": "x", "rooms": [1, 20]},
}  # fmt: skip
QUOTED: Final[dict[str, Any]] = {
    "city": 'the "old" town\nby the sea: it\'s {1} [2], <3>', "exact": False, "maybe": True, "rate": 2.0, "tags": [],
    "where": {"name": "a\\b"},
}  # fmt: skip
BARE: Final = {"city": "it's"}
CASES: Final = [
    pytest.param(layout, arguments, id=f"{layout.name}-{name}")
    for layout in LAYOUTS
    for name, arguments in (("plain", PLAIN), ("quoted", QUOTED), ("bare", BARE))
    if not (layout.escapes_nothing and name != "plain")
]
# How markers are spelled does not depend on the arguments: the second tokenizer is tested with one set of them.
WITH_TOKENIZERS: Final = [
    pytest.param(*case.values, tokenizer, id=f"{case.id}-{name}")
    for case in CASES
    for name, tokenizer in (("tokens", WITH_TOKENS), ("spelled", SPELLED))
    if name == "tokens" or case.values[1] is PLAIN
]


def calls_of(syntax: ToolSyntax, arguments: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls to render: one if each call is a separate turn, otherwise two."""
    calls: list[tuple[str, dict[str, Any]]] = [("weather", arguments)]
    return calls if syntax in {HARMONY, GLM4} else [*calls, ("ping", {})]


def rendered(layout: Layout, arguments: dict[str, Any]) -> str:
    """Return the text of the turn with the calls, without the end of the turn."""
    calls = [
        {
            "id": layout.syntax.call_id("u", name, number),
            "type": "function",
            "function": {"name": name, "arguments": given},
        }
        for number, (name, given) in enumerate(calls_of(layout.syntax, arguments))
    ]
    template = cached_template(layout.template)
    user = {"role": "user", "content": "hi"}
    turn = {"role": "assistant", "content": "", "tool_calls": calls}
    text = template.render([user, turn], None, {"add_generation_prompt": False})
    text = text.removeprefix(template.render([user], None, {}))
    return text.removesuffix("<|im_end|>\n").removesuffix("<|call|>")


def rules_of(syntax: ToolSyntax, *, required: bool) -> ToolRules:
    """Return rules that hold the calls to their schemas."""
    return ToolRules(TOOLS, syntax, required=required, single=False, field="tools")


cached_template = cache(template_of)


@cache
def compiler_of(tokenizer: FastTokenizer) -> ConstraintCompiler:
    """Return the tokenizer's compiler, without the search for endings, which allows the same texts."""
    return ConstraintCompiler(tokenizer, control_ids_of(tokenizer), [token_id(tokenizer, END)], ends_in_time=False)


@pytest.mark.parametrize(("layout", "arguments"), CASES)
def test_rendered_calls_are_read(layout: Layout, arguments: dict[str, Any]) -> None:
    """The parser reads the calls with their arguments, and nothing else."""
    reasoning, content, calls = read(layout.syntax, rendered(layout, arguments), SCHEMAS)
    assert (reasoning, content.strip()) == ("", "")
    assert [(name, json.loads(text)) for name, text in calls] == calls_of(layout.syntax, arguments)


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "arguments", "tokenizer"), WITH_TOKENIZERS)
def test_grammar_of_required_calls_allows_rendered_calls(
    layout: Layout, arguments: dict[str, Any], tokenizer: FastTokenizer
) -> None:
    """The grammar of required calls allows them, up to the end of the answer."""
    ids = control_tokens_of(tokenizer, "".join(MARKERS)).ids
    grammar = tool_grammar(rules_of(layout.syntax, required=True), ids, None)
    text = rendered(layout, arguments).strip("\n")
    assert accepts(grammar, tokenizer, text + END)


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "arguments", "tokenizer"), WITH_TOKENIZERS)
def test_masks_of_optional_calls_allow_rendered_calls(
    layout: Layout, arguments: dict[str, Any], tokenizer: FastTokenizer
) -> None:
    """The masks of calls that the model makes by itself allow every token of them."""
    ids = control_tokens_of(tokenizer, "".join(MARKERS)).ids
    state = compiler_of(tokenizer)(Constraint(opened_calls(rules_of(layout.syntax, required=False), ids)))
    decoded = ""
    for each in tokenizer.encode(rendered(layout, arguments)):
        assert each in allowed_ids(state, tokenizer), decoded + "|" + tokenizer.decode([each])
        state.accept(each)
        decoded += tokenizer.decode([each])

"""Calls of every family: identified by the template, and read from models' answers and from the template's own."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from service.output.families.object_calls import INTERNLM2, PLAIN_JSON
from service.output.families.tool_families import SYNTAXES, tool_syntax
from service.settings.model_settings import SyntaxName
from tests.service.output.families.families import FAMILIES, read
from tests.service.output.families.family import OSLO, Calls, Family
from tests.service.prompts.fakes import template_of

CASES = [
    pytest.param(family, *case, id=f"{family.syntax.name}-{index}")
    for family in FAMILIES
    for index, case in enumerate(family.cases)
]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=[family.syntax.name for family in FAMILIES])


def parsed(calls: list[tuple[str, str]]) -> Calls:
    return [(name, json.loads(arguments)) for name, arguments in calls]


@pytest.mark.parametrize(("family", "text", "content", "calls"), CASES)
def test_answers_are_read_the_same_at_every_cut(family: Family, text: str, content: str, calls: Calls) -> None:
    """Calls have arguments of the schemas' types, and the rest is content, wherever the text is cut."""
    whole = read(family.syntax, text)
    assert (whole[0], whole[1], parsed(whole[2])) == ("", content, calls)
    for cut in range(len(text)):
        assert read(family.syntax, text, cuts=[cut]) == whole
    assert read(family.syntax, text, cuts=range(len(text))) == whole


@every_family
def test_family_is_identified_by_its_template(family: Family) -> None:
    """Each family's template is identified, even if families share marks."""
    assert tool_syntax(family.template) is family.syntax


def test_every_syntax_has_test_cases() -> None:
    """Every syntax has a corpus, and settings have the same names."""
    assert {family.syntax.name for family in FAMILIES} == set(SYNTAXES) == set(get_args(SyntaxName))


def test_family_is_identified_by_its_special_tokens() -> None:
    """The tokens decide if a template shows no call; a template's own marks take precedence."""
    assert tool_syntax("{{ tools }}", ["<|action_start|>", "<|plugin|>"]) is INTERNLM2
    assert tool_syntax("{{ tools }}", ["<|plugin|>"]) is PLAIN_JSON
    assert tool_syntax("{{ tools }}<tool_call>", ["<|action_start|>", "<|plugin|>"]).name == "hermes"


@every_family
def test_call_rendered_by_the_template_is_parsed(family: Family) -> None:
    """The parser reads the calls that a template renders for an earlier turn."""
    template = template_of(family.template)
    user = {"role": "user", "content": "hi"}
    call = {"id": "functions.weather:0", "type": "function", "function": {"name": "weather", "arguments": OSLO}}
    turn = {"role": "assistant", "content": "", "tool_calls": [call]}
    before = template.render([user], None, {})
    text = template.render([user, turn], None, {"add_generation_prompt": False}).removeprefix(before)
    assert parsed(read(family.syntax, text.removesuffix("<|im_end|>\n"))[2]) == [("weather", OSLO)]

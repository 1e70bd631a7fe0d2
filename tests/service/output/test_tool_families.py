"""Every family's calls: known by the template, read from what its models write, and from what its template writes."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from service.output.families.tool_families import INTERNLM2, PLAIN_JSON, SYNTAXES, tool_syntax
from service.settings.model_settings import SyntaxName
from tests.service.output.families import FAMILIES, OSLO, Calls, Family, read
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
    """Calls come out with arguments of the schemas' types, the rest as content, wherever the text is cut."""
    whole = read(family.syntax, text)
    assert (whole[0], whole[1], parsed(whole[2])) == ("", content, calls)
    for cut in range(len(text)):
        assert read(family.syntax, text, cuts=[cut]) == whole
    assert read(family.syntax, text, cuts=range(len(text))) == whole


@every_family
def test_family_is_known_by_its_template(family: Family) -> None:
    """None is taken for another, however much of its marks they share."""
    assert tool_syntax(family.template) is family.syntax


def test_there_is_a_corpus_of_every_syntax() -> None:
    """A syntax without one is not served; settings name the same ones."""
    assert {family.syntax.name for family in FAMILIES} == set(SYNTAXES) == set(get_args(SyntaxName))


def test_family_is_known_by_its_tokenizer() -> None:
    """A template that shows no call leaves it to the tokens; a template's own marks come first."""
    assert tool_syntax("{{ tools }}", ["<|action_start|>", "<|plugin|>"]) is INTERNLM2
    assert tool_syntax("{{ tools }}", ["<|plugin|>"]) is PLAIN_JSON
    assert tool_syntax("{{ tools }}<tool_call>", ["<|action_start|>", "<|plugin|>"]).name == "hermes"


@every_family
def test_template_s_own_call_is_read(family: Family) -> None:
    """What a template shows of an earlier turn is what the parser takes."""
    template = template_of(family.template)
    user = {"role": "user", "content": "hi"}
    call = {"id": "functions.weather:0", "type": "function", "function": {"name": "weather", "arguments": OSLO}}
    told = {"role": "assistant", "content": "", "tool_calls": [call]}
    before = template.render([user], None, {})
    text = template.render([user, told], None, {"add_generation_prompt": False}).removeprefix(before)
    assert parsed(read(family.syntax, text.removesuffix("<|im_end|>\n"))[2]) == [("weather", OSLO)]

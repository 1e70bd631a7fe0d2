"""The tool syntax is corrected by the calls that a template renders, if the template's marks mislead."""

from __future__ import annotations

import logging

import pytest

from service.output.families.keyword_calls import LFM2
from service.output.families.object_calls import HERMES, LLAMA3, PLAIN_JSON
from service.output.families.tagged_calls import QWEN_CODER
from service.output.families.tool_syntax import ToolSyntax
from service.prompts.templates.template_calls import confirmed_syntax, warn_if_unparsed
from tests.service.output.families.families import FAMILIES
from tests.service.output.families.family import Family, chatml, each
from tests.service.prompts.fakes import CHATML, template_of


@pytest.mark.parametrize("family", FAMILIES, ids=[family.syntax.name for family in FAMILIES])
def test_template_of_each_family_confirms_its_syntax(family: Family, caplog: pytest.LogCaptureFixture) -> None:
    """Each family's template renders calls that the family's syntax reads; nothing is logged."""
    with caplog.at_level(logging.INFO):
        assert confirmed_syntax(template_of(family.template), family.syntax) is family.syntax
        warn_if_unparsed(template_of(family.template), family.syntax)
    assert not caplog.records


def test_rendered_call_overrides_misleading_marks(caplog: pytest.LogCaptureFixture) -> None:
    """A template that assembles its markers is identified by the rendered call."""
    shown = (
        "{{ '<|tool_call_' + 'start|>[' }}{{ f.name }}(word='{{ f.arguments.word }}'){{ ']<|tool_call_' + 'end|>' }}"
    )
    template = template_of(chatml(each(shown), "Don't write <tool_call>."))
    with caplog.at_level(logging.INFO):
        assert confirmed_syntax(template, HERMES) is LFM2
    (record,) = caplog.records
    assert record.levelno == logging.INFO


def test_rendered_call_of_an_unknown_syntax_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The detected syntax is kept, and a warning is logged."""
    template = template_of(chatml(each("{{ 'Please do ' + f.name + ' with ' + f.arguments.word }}")))
    assert confirmed_syntax(template, HERMES) is HERMES
    (record,) = caplog.records
    assert record.levelno == logging.WARNING


def test_setting_that_contradicts_the_template_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A configured syntax is used, and a warning is logged."""
    warn_if_unparsed(template_of(CHATML), QWEN_CODER)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING


@pytest.mark.parametrize(
    "source", ["{{ messages[0].content }}", "{{ raise_exception('no tools') }}", "{{ messages[0].nothing.more }}"]
)
@pytest.mark.parametrize("syntax", [PLAIN_JSON, LLAMA3], ids=["json", "llama3"])
def test_template_without_calls_logs_nothing(source: str, syntax: ToolSyntax, caplog: pytest.LogCaptureFixture) -> None:
    """If a template shows no calls, rejects them or fails, the detected syntax is kept."""
    assert confirmed_syntax(template_of(source), syntax) is syntax
    assert not caplog.records

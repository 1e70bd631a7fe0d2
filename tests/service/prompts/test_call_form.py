"""How a template takes earlier calls is found out, so that the turn after a call doesn't lose it or break."""

from __future__ import annotations

import pytest

from service.generation.prompts.conversation import FunctionCall, Role
from service.prompts.templates.call_form import CallForm, call_form
from service.prompts.templates.template_input import template_messages
from tests.service.prompts.fakes import CHATML, message, template_of, user

SHOWN = "{% for message in messages %}{{ message.content or '' }}CALLS{% endfor %}"
AS_TEXT = "{% for call in message.tool_calls or [] %}{{ call.function.name + call.function.arguments }}{% endfor %}"
UNLESS_TEXT = (
    "{% if message.role == 'assistant' and message.content is none %}"
    "{% for call in message.tool_calls %}{{ call.function.name + '```json' + call.function.arguments }}{% endfor %}"
    "{% endif %}"
)
LOOKING = (
    "{% for call in message.tool_calls or [] %}{{ call.function.name }}{% set a = call.function.arguments %}"
    "{{ a if call.function.arguments is string else a | tojson }}{% endfor %}"
)


@pytest.mark.parametrize(
    ("source", "form"),
    [
        (CHATML, CallForm()),
        (SHOWN.replace("CALLS", AS_TEXT), CallForm(parses_arguments=False)),
        (SHOWN.replace("CALLS", UNLESS_TEXT), CallForm(parses_arguments=False, empty_is_none=True)),
        (SHOWN.replace("CALLS", LOOKING), CallForm(parses_arguments=False)),
        ("{{ messages[0].content }}", CallForm()),
        ("{{ raise_exception('no') }}", CallForm()),
    ],
)
def test_form_is_found_by_showing_a_call(source: str, form: CallForm) -> None:
    """Values or text, an empty text or none: the first form that the template shows the call in."""
    assert call_form(template_of(source)) == form


def test_call_without_a_text_is_shown_by_a_template_that_wants_none() -> None:
    """As DeepSeek's: with an empty text it would leave out the call, and the result would answer nothing."""
    template = template_of(SHOWN.replace("CALLS", UNLESS_TEXT))
    call = FunctionCall("1", "weather", '{"city": "Oslo"}')
    told = (
        user("hi"),
        message(Role.ASSISTANT, tool_calls=(call,)),
        message(Role.TOOL, "sun", tool_call_id="1", tool_call_field="m"),
    )
    turns = template_messages(told, default_system_prompt=None, markers=None, form=call_form(template))
    assert template.render(turns, None, {}) == 'hiweather```json{"city": "Oslo"}sun'

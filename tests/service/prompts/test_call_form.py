"""The form in which a template takes earlier calls is detected, so that the turn after a call is rendered correctly."""

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
def test_call_form_is_detected_by_rendering_a_call(source: str, form: CallForm) -> None:
    """The first form in which the template shows the call is used: values or text, an empty text or None."""
    assert call_form(template_of(source)) == form


def test_template_that_needs_null_content_renders_the_call() -> None:
    """DeepSeek's template needs None: with an empty text it would omit the call."""
    template = template_of(SHOWN.replace("CALLS", UNLESS_TEXT))
    call = FunctionCall("1", "weather", '{"city": "Oslo"}')
    messages = (
        user("hi"),
        message(Role.ASSISTANT, tool_calls=(call,)),
        message(Role.TOOL, "sun", tool_call_id="1", tool_call_field="m"),
    )
    turns = template_messages(messages, default_system_prompt=None, markers=None, form=call_form(template))
    assert template.render(turns, None, {}) == 'hiweather```json{"city": "Oslo"}sun'

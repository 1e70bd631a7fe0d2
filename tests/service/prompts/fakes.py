"""Small tokenizers, templates and conversations for the tests of prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.prompts.conversation import Message, Role, TextPart
from service.prompts.templates.template import ChatTemplate
from service.prompts.tokens.control_tokens import ControlTokens
from tests.engine.constraints.fakes import END

DEMO = Path(__file__).parents[3] / "demo" / "model"
# A template of ChatML's form with every marker that the tests use.
CHATML = (
    "{%- if tools %}{{ '<|im_start|>system\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{{ 'as <tool_call>, not <think></think><|im_end|>\n' }}{% endif %}"
    "{%- for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' }}"
    "{%- if message.reasoning_content %}{{ '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{% endif %}"
    "{{ message.content }}"
    "{%- for call in message.tool_calls or [] %}{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}"
    "{%- endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
)


def template_of(source: str) -> ChatTemplate:
    """Return a chat template whose special token for the end of text is `END`."""
    return ChatTemplate({"default": source}, {"eos_token": END})


def control_tokens_of(tokenizer: FastTokenizer, template: str = CHATML) -> ControlTokens:
    return ControlTokens(tokenizer, template)


def message(role: Role, *texts: str, **fields: Any) -> Message:
    return Message(role, tuple(TextPart(text) for text in texts), **fields)


def user(text: str) -> Message:
    return message(Role.USER, text)

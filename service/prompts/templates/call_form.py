"""Detect the form in which a chat template takes the tool calls of earlier turns, by rendering one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import Any

from service.prompts.templates.template import ChatTemplate

PROBE = "look_up"  # the function that is called
ARGUMENTS = {"word": "fjord"}
_PARAMETERS = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
TOOL = {"type": "function", "function": {"name": PROBE, "description": "Looks up.", "parameters": _PARAMETERS}}
USER_TURN = {"role": "user", "content": "Look it up."}


@dataclass(frozen=True, slots=True)
class CallForm:
    """`parses_arguments` passes arguments as values instead of text, `empty_is_none` an empty text as None."""

    parses_arguments: bool = True
    empty_is_none: bool = False

    def call_turn(self, call_id: str) -> dict[str, Any]:
        """Return an assistant's turn with a call in this form."""
        arguments: Any = ARGUMENTS if self.parses_arguments else '{"word": "fjord"}'
        call = {"id": call_id, "type": "function", "function": {"name": PROBE, "arguments": arguments}}
        return {"role": "assistant", "content": None if self.empty_is_none else "", "tool_calls": [call]}


def call_form(template: ChatTemplate) -> CallForm:
    """Return the first form in which the template shows a call; the usual form if it shows none."""
    # Templates that check whether arguments are a string take them as they were written.
    takes_text = re.search(r"arguments\s+is\s+string", template.source) is not None
    default = CallForm(parses_arguments=not takes_text)
    for empty_is_none, parses in product((False, True), (not takes_text, takes_text)):
        form = CallForm(parses, empty_is_none)
        text = template.try_render([USER_TURN, form.call_turn("a1b2c3d4e")], [TOOL], {"add_generation_prompt": False})
        before = template.try_render([USER_TURN], [TOOL], {"add_generation_prompt": False})
        if text is not None and text.count(PROBE) > (before or "").count(PROBE):
            return form
    return default

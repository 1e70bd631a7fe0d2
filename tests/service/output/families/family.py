"""A family's answers for tests, and the parts of chat templates that render calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.output.families.tool_syntax import ToolSyntax

Calls = list[tuple[str, dict[str, Any]]]

OSLO = {"city": "Oslo", "days": 3}


@dataclass(frozen=True)
class Family:
    """A family's syntax, a template of its kind, and answers."""

    syntax: ToolSyntax
    template: str
    cases: tuple[tuple[str, str, Calls], ...]
    ping: str  # a call of `ping` without arguments, in the family's layout


def chatml(calls: str, hint: str = "", opening: str = "") -> str:
    """Return a ChatML template. `calls` renders `message.tool_calls`; `hint` is in the prompt with the tools."""
    return (
        "{%- if tools %}{{ '<|im_start|>system\n' }}{% for tool in tools %}{{ tool | tojson }}{{ '\n' }}{% endfor %}"
        f"{{{{ {hint!r} }}}}{{{{ '<|im_end|>\n' }}}}{{% endif %}}"
        "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' + (message.content or '') }}"
        "{%- if message.tool_calls %}" + calls + "{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
        "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n" + opening + "' }}{% endif %}"
    )


def each(call: str, between: str = "") -> str:
    """Return a template that renders each call, named `f`, by `call`."""
    tail = "{% if not loop.last %}{{ " + repr(between) + " }}{% endif %}" if between else ""
    return "{% for call in message.tool_calls %}{% set f = call.function %}" + call + tail + "{% endfor %}"

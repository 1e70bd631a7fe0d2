"""The layouts in which models' own templates render calls, where they differ from the family's first template."""

from __future__ import annotations

from typing import NamedTuple

from service.output.families.keyword_calls import LFM2, LLAMA4_PYTHONIC, PYTHONIC
from service.output.families.named_calls import MISTRAL_NAMED
from service.output.families.object_calls import COMMAND, COMMAND_R, HERMES, MINIMAX_M1, MISTRAL
from service.output.families.tagged_calls import GLM45, QWEN_CODER, STEP3
from service.output.families.tool_syntax import BracedCall, ToolSyntax
from tests.service.output.families.families import FAMILIES
from tests.service.output.families.family import chatml, each


class Layout(NamedTuple):
    """A template of a syntax. If it `escapes_nothing`, strings are between quotes as they are."""

    name: str
    syntax: ToolSyntax
    template: str
    escapes_nothing: bool = False


_MEMBERS = """{{ '{"name": "' + f.name + '", "arguments": ' }}{{ f.arguments | tojson }}"""
_OBJECT = _MEMBERS + "{{ '}' }}"
_ARGUMENTS = "{% for key, value in f.arguments.items() %}"
_SEPARATED = "{{ ', ' if not loop.last }}{% endfor %}"
_PYTHON = "{{ f.name }}(" + _ARGUMENTS + "{{ key }}={{ '%r' | format(value) }}" + _SEPARATED + ")"
_LFM2 = (
    "{{ f.name }}(" + _ARGUMENTS + '{{ key }}={{ "\'" + value + "\'" if value is string else '
    "(value | tojson if value is mapping else value | string) }}" + _SEPARATED + ")"
)
_GLM47 = (
    "<tool_call>{{ f.name }}" + _ARGUMENTS + "<arg_key>{{ key }}</arg_key>"
    "<arg_value>{{ value if value is string else value | tojson }}</arg_value>{% endfor %}</tool_call>"
)
_GLM46 = (
    "{{ '\n<tool_call>' + f.name + '\n' }}" + _ARGUMENTS + "{{ '<arg_key>' + key + '</arg_key>\n<arg_value>' }}"
    "{{ value if value is string else value | tojson }}{{ '</arg_value>\n' }}{% endfor %}</tool_call>"
)
_CODER = (  # scalars are written as Python does
    "{{ '<tool_call>\n<function=' + f.name + '>\n' }}" + _ARGUMENTS + "{{ '<parameter=' + key + '>\n' }}"
    "{{ value | tojson if value is mapping or (value is sequence and value is not string) else value | string }}"
    "{{ '\n</parameter>\n' }}{% endfor %}{{ '</function>\n</tool_call>' }}"
)
_STEP3 = (
    "{{ 'OPEN' + f.name + '\">\n' }}" + _ARGUMENTS + "{{ '<steptml:parameter name=\"' + key + '\">' }}"
    "{{ value if value is string else value | tojson }}{{ '</steptml:parameter>\n' }}{% endfor %}"
    "{{ '</steptml:invoke><｜tool_call_end｜>\n' }}"  # noqa: RUF001  full-width bars
)


def _step3(opening: str) -> str:
    calls = each(_STEP3.replace("OPEN", opening))
    return chatml("{{ '<｜tool_calls_begin｜>\n' }}" + calls + "{{ '<｜tool_calls_end｜>' }}")  # noqa: RUF001


def _listed(opening: str, call: str, between: str, closing: str) -> str:
    return chatml(f"{{{{ {opening!r} }}}}" + each(call, between) + f"{{{{ {closing!r} }}}}")


LAYOUTS = [
    *(
        Layout(family.syntax.name, family.syntax, family.template, isinstance(family.syntax.payload, BracedCall))
        for family in FAMILIES
    ),
    Layout("Llama 3.2", PYTHONIC, _listed("[", _PYTHON, ", ", "]")),
    Layout("Llama 4", LLAMA4_PYTHONIC, _listed("<|python_start|>[", _PYTHON, ", ", "]<|python_end|>")),
    Layout("LFM2.5", LFM2, _listed("<|tool_call_start|>[", _LFM2, ", ", "]<|tool_call_end|>"), escapes_nothing=True),
    Layout("EXAONE 4", HERMES, chatml(each("<tool_call>" + _OBJECT + "</tool_call>"))),
    Layout(
        "Hunyuan", MINIMAX_M1, _listed("<tool_calls>[\n", _OBJECT, ",\n", "\n]</tool_calls>"),
    ),
    Layout("Jamba", MINIMAX_M1, _listed("<tool_calls>[\n  ", _OBJECT, ",\n  ", "\n]</tool_calls>")),
    Layout(
        "Command R",
        COMMAND_R,
        _listed(
            "Action:\n```json\n[\n    ",
            "{{ '{\n        \"tool_name\": \"' + f.name + '\",\n        \"parameters\": ' }}"
            "{{ f.arguments | tojson(indent=4) | indent(8) }}{{ '\n    }' }}",
            ",\n    ",
            "\n]```",
        ),
    ),
    Layout(
        "Command R7B",
        COMMAND,
        _listed(
            "<|START_ACTION|>[\n    ",
            "{{ '{\"tool_call_id\": \"' }}{{ loop.index0 }}"
            "{{ '\", \"tool_name\": \"' + f.name + '\", \"parameters\": ' }}"
            "{{ f.arguments | tojson }}{{ '}' }}",
            ",\n    ",
            "\n]<|END_ACTION|>",
        ),
    ),
    Layout(
        "Mistral 7B",
        MISTRAL,
        _listed("[TOOL_CALLS][", _MEMBERS + "{{ ', \"id\": \"' + call.id + '\"}' }}", ", ", "]"),
    ),
    Layout(
        "Mistral Small 3.2",
        MISTRAL_NAMED,
        chatml(each("{{ '[TOOL_CALLS]' + f.name + '[CALL_ID]' + call.id + '[ARGS]' }}{{ f.arguments | tojson }}")),
    ),
    Layout("GLM-4.6", GLM45, chatml(each(_GLM46))),
    Layout("GLM-4.7", GLM45, chatml(each(_GLM47))),
    Layout("Qwen3-Coder", QWEN_CODER, chatml(each("{{ '\n' }}" + _CODER))),
    Layout("Step-3.5", QWEN_CODER, chatml(each(_CODER))),
    Layout("Step-3", STEP3, _step3('<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="')),  # noqa: RUF001
    Layout("Step-3's history", STEP3, _step3('<｜tool_call_begin>｜>function<｜tool_sep｜><steptml:invoke name="')),  # noqa: RUF001
]  # fmt: skip

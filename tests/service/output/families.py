"""Texts that models of each family write, and templates with their calls: as short as the family's rules allow.

Each case has an answer, its content, and its calls of `weather` and `ping` as name and parsed arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from service.generation.formats.constraint import ReasoningStart
from service.generation.outputs.events import Delta
from service.output.families.tool_families import (
    APERTUS,
    COMMAND,
    COMMAND_R,
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    FUNCTION_GEMMA,
    FUNCTION_TAG,
    GEMMA4,
    GLM4,
    GLM45,
    GRANITE,
    GRANITE_FUNCTION,
    HARMONY,
    HERMES,
    INTERNLM2,
    KIMI_K2,
    LFM2,
    LLAMA3,
    LLAMA4_PYTHONIC,
    MINIMAX_M1,
    MINIMAX_M2,
    MISTRAL,
    MISTRAL_NAMED,
    NEMOTRON,
    OLMO3,
    PHI4_MINI,
    PLAIN_JSON,
    PYTHONIC,
    QWEN_CODER,
    SEED_OSS,
    SYNTAXES,
)
from service.output.families.tool_syntax import ChannelCall, Schema, ToolSyntax
from service.output.parsers.channel_parser import ChannelParser
from service.output.parsers.tool_parser import ToolCallParser
from tests.service.output.fakes import join

# The markers that are one token in the family's vocabulary.
_TOKEN = re.compile(r"</?[a-z:_]+>|<\|[^|]+\|>|\[[A-Z_]+\]|<\uff5c[^\uff5c]+\uff5c>|<\|[a-z_]+>|<[a-z_]+\|>|<\|\"\|>")
MARKERS = sorted({token for syntax in SYNTAXES.values() for text in syntax.markers for token in _TOKEN.findall(text)})

Calls = list[tuple[str, dict[str, Any]]]

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "exact": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"$ref": "#/$defs/place"},
        "unit": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["city"],
    "$defs": {"place": {"type": "object"}},
}
FUNCTIONS: dict[str, Schema] = {"weather": PARAMETERS, "ping": {"type": "object", "properties": {}}}
OSLO = {"city": "Oslo", "days": 3}


@dataclass(frozen=True)
class Family:
    """A family's syntax, a template of its kind, and answers."""

    syntax: ToolSyntax
    template: str
    cases: tuple[tuple[str, str, Calls], ...]

    @property
    def ping(self) -> str:
        """Return a call of `ping` without arguments in the family's layout."""
        return _PINGS[self.syntax.name]


def deltas_of(
    syntax: ToolSyntax, text: str, functions: Mapping[str, Schema] = FUNCTIONS, cuts: Iterable[int] = ()
) -> list[Delta]:
    """Return the deltas of the family's parser for a text that comes in parts."""
    is_channels = isinstance(syntax.payload, ChannelCall)
    parser = ChannelParser(functions, ReasoningStart.MAY_OPEN) if is_channels else ToolCallParser(syntax, functions)
    deltas: list[Delta] = []
    begin = 0
    for end in [*cuts, len(text)]:
        deltas += parser.feed(text[begin:end])
        begin = end
    return deltas + parser.close()


def read(
    syntax: ToolSyntax, text: str, functions: Mapping[str, Schema] = FUNCTIONS, cuts: Iterable[int] = ()
) -> tuple[str, str, list[tuple[str, str]]]:
    """Return the reasoning, the content and the calls in a text that comes in parts."""
    return join(deltas_of(syntax, text, functions, cuts))


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


def _object(name: str = "name", arguments: str = "arguments", lead: str = "") -> str:
    return f"""{{{{ '{{{lead}"{name}": "' + f.name + '", "{arguments}": ' + (f.arguments | tojson) + '}}' }}}}"""


def _tagged(name: str, key: str, value_end: str, call_end: str, around: str = "") -> str:
    return (
        f"{{{{ {name} }}}}{{% for key, value in f.arguments.items() %}}{{{{ {key} }}}}{{{{ {around!r} }}}}"
        "{{ value if value is string else (value | tojson) }}"
        f"{{{{ {around!r} + {value_end!r} }}}}{{% endfor %}}{{{{ {call_end!r} }}}}"
    )


_PYTHON_ARGUMENTS = (
    "{% for key, value in f.arguments.items() %}{{ key }}={{ value | tojson }}"
    "{% if not loop.last %}, {% endif %}{% endfor %}"
)
_GEMMA_ARGUMENTS = (
    "{% for key, value in f.arguments.items() %}{{ key }}:"
    "{% if value is string %}{{ QUOTE + value + QUOTE }}{% else %}{{ value | tojson }}{% endif %}"
    "{% if not loop.last %},{% endif %}{% endfor %}"
)
_HARMONY = (
    "{{ '<|start|>system<|message|>Reasoning: ' + (reasoning_effort or 'medium') + '<|end|>' }}"
    "{%- if tools %}{{ '<|start|>developer<|message|># Tools\n' }}{% for tool in "
    "tools %}{{ tool | tojson }}{% endfor %}"
    "{{ '<|end|>' }}{% endif %}"
    "{%- set last = namespace(name='') %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'tool' %}"
    "{{ '<|start|>functions.' + last.name + ' to=assistant<|channel|>commentary<|message|>' }}"
    "{{ (message.content | tojson) + '<|end|>' }}"
    "{%- elif message.role != 'assistant' %}{{ '<|start|>' + message.role + "
    "'<|message|>' + message.content + '<|end|>' }}"
    "{%- elif message.tool_calls %}{% set f = message.tool_calls[0].function %}{% set last.name = f.name %}"
    "{%- if message.thinking %}"
    "{{ '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}{% endif %}"
    "{{ '<|start|>assistant to=functions.' + f.name + '<|channel|>commentary json<|message|>' }}"
    "{{ (f.arguments | tojson) + '<|call|>' }}"
    "{%- else %}{{ '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}{% endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)
_GLM4 = (
    "[gMASK]<sop>{%- if tools %}{{ '<|system|>\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'tool' %}{{ '<|observation|>\n' + message.content }}"
    "{%- elif message.tool_calls %}"
    + each("{{ '<|assistant|>' + f.name + '\n' + (f.arguments | tojson) }}")
    + "{%- else %}{{ '<|' + message.role + '|>\n' + message.content }}{% endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
_D = {
    "calls": "<｜tool▁calls▁begin｜>",  # noqa: RUF001  full-width bars
    "end": "<｜tool▁calls▁end｜>",  # noqa: RUF001
    "call": "<｜tool▁call▁begin｜>",  # noqa: RUF001
    "call_end": "<｜tool▁call▁end｜>",  # noqa: RUF001
    "sep": "<｜tool▁sep｜>",  # noqa: RUF001
}


def _deepseek(text: str) -> str:
    return text.format_map(_D)


FAMILIES = [
    Family(
        HARMONY,
        _HARMONY,
        (
            ("<|channel|>final<|message|>Hi there.", "Hi there.", []),
            (
                (
                    "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
                    '{"city": "Oslo", "days": 3}<|call|>'
                ),
                "",
                [("weather", OSLO)],
            ),
            (
                ' to=functions.weather<|channel|>commentary json<|message|>{"city":"Oslo","days":3}',
                "",
                [("weather", OSLO)],
            ),
            ("<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{}<|call|>", "", [("ping", {})]),
            (
                (
                    "<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant<|channel|>commentary "
                    'to=functions.weather <|constrain|>json<|message|>{"city": "a<|b"}<|call|>'
                ),
                "Let me look.",
                [("weather", {"city": "a<|b"})],
            ),
            ("Hi without a header <|end|>", "Hi without a header <|end|>", []),
            (
                "<|channel|>commentary to=browser.open<|message|>{}<|call|>",
                "<|channel|>commentary to=browser.open<|message|>{}",
                [],
            ),
        ),
    ),
    Family(
        QWEN_CODER,
        chatml(
            each(
                "{{ '<tool_call>\n' }}"
                + _tagged(
                    "'<function=' + f.name + '>\n'", "'<parameter=' + key + '>'", "</parameter>\n", "</function>", "\n"
                )
                + "{{ '\n</tool_call>' }}",
                "\n",
            )
        ),
        (
            (
                (
                    "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>"
                    "\n</function>\n</tool_call>"
                ),
                "",
                [("weather", OSLO)],
            ),
            (
                (
                    "Let me "
                    "see.\n\n<tool_call>\n<function=ping>\n</function>\n</tool_call>\n<tool_call>\n<function=weather>\n"
                    "<parameter=city>\nif a < b:\n  "
                    'say("</p")\n\n</parameter>\n<parameter=tags>\n["x", "y"]\n</parameter>\n'
                    "<parameter=exact>\nTrue\n</parameter>\n<parameter=unit>\nnull\n</parameter>\n</function>\n</tool_call>"
                ),
                "Let me see.",
                [
                    ("ping", {}),
                    ("weather", {"city": 'if a < b:\n  say("</p")\n', "tags": ["x", "y"], "exact": True, "unit": None}),
                ],
            ),
            # A known mistake of these models: no <tool_call>.
            (
                "<function=weather>\n<parameter=city>\n12\n</parameter>\n</function>\n</tool_call>",
                "",
                [("weather", {"city": "12"})],
            ),
            ("Call <function=weather> now", "Call <function=weather> now", []),
            (
                "<tool_call>\n<function=other>\n</function>\n</tool_call>",
                "<tool_call>\n<function=other>\n</function>\n</tool_call>",
                [],
            ),
        ),
    ),
    Family(
        DEEPSEEK_V3,
        chatml(
            _deepseek(
                "{{{{ '{calls}' }}}}"
                + each(
                    "{{ '{call}function{sep}' + f.name + '\n```json\n' + (f.arguments | tojson) + '\n```{call_end}' }}",
                    "\n",
                )
                .replace("{%", "{{%")
                .replace("%}", "%}}")
                .replace("{{ ", "{{{{ ")
                .replace(" }}", " }}}}")
                + "{{{{ '{end}' }}}}"
            )
        ),
        (
            (
                _deepseek(
                    "{calls}{call}function{sep}weather\n```json\n"
                    '{{"city": "Oslo", "days": '
                    "3}}\n```{call_end}\n{call}function{sep}ping\n```json\n{{}}\n```{call_end}{end}"
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
            (
                _deepseek("Now. {calls}{call}function{sep}ping\n```json\n{{}}\n```{call_end}{end} Done"),
                "Now. Done",
                [("ping", {})],
            ),
            ("```json\n{}\n```", "```json\n{}\n```", []),
        ),
    ),
    Family(
        DEEPSEEK_V31,
        chatml(
            "{{ '"
            + _D["calls"]
            + "' }}"
            + each(
                "{{ '"
                + _D["call"]
                + "' + f.name + '"
                + _D["sep"]
                + "' + (f.arguments | tojson) + '"
                + _D["call_end"]
                + "' }}"
            )
            + "{{ '"
            + _D["end"]
            + "' }}"
        ),
        (
            (
                _deepseek(
                    '{calls}{call}weather{sep}{{"city": "Oslo", "days": 3}}{call_end}{call}ping{sep}{{}}{call_end}{end}'
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
            (_deepseek("{calls}{call}nothing{sep}{{}}"), _deepseek("{calls}{call}nothing{sep}{{}}"), []),
        ),
    ),
    Family(
        GLM45,
        chatml(
            each(
                _tagged(
                    "'<tool_call>' + f.name + '\n'",
                    "'<arg_key>' + key + '</arg_key>\n<arg_value>'",
                    "</arg_value>\n",
                    "</tool_call>",
                ),
                "\n",
            )
        ),
        (
            (
                (
                    "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n"
                    "<arg_value>3</arg_value>\n</tool_call>"
                ),
                "",
                [("weather", OSLO)],
            ),
            # The layout of 4.7.
            (
                (
                    "So:<tool_call>weather<arg_key>city</arg_key><arg_value> a < b </arg_value><arg_key>where</arg_key>"
                    '<arg_value>{"x": [1]}</arg_value></tool_call><tool_call>ping</tool_call>'
                ),
                "So:",
                [("weather", {"city": " a < b ", "where": {"x": [1]}}), ("ping", {})],
            ),
            ('<tool_call>{"name": "weather"}</tool_call>', '<tool_call>{"name": "weather"}</tool_call>', []),
        ),
    ),
    Family(
        GLM4,
        _GLM4,
        (
            ('weather\n{"city": "Oslo", "days": 3}', "", [("weather", OSLO)]),
            ("weather is fine", "weather is fine", []),
            ("It is\nping\n{}", "It is\nping\n{}", []),
        ),
    ),
    Family(
        PHI4_MINI,
        chatml("{{ '<|tool_call|>[' }}" + each(_object(), ", ") + "{{ ']<|/tool_call|>' }}", "<|tool|><|/tool|>"),
        (
            (
                (
                    '<|tool_call|>[{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}, {"name": "ping", '
                    '"arguments": {}}]<|/tool_call|>'
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
            ('functools[{"name": "ping", "arguments": {}}]', "", [("ping", {})]),
            ("functools is a module", "functools is a module", []),
        ),
    ),
    Family(
        GRANITE,
        chatml("{{ '<|tool_call|>[' }}" + each(_object(), ", ") + "{{ ']' }}"),
        (
            (
                '<|tool_call|>[{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}]',
                "",
                [("weather", OSLO)],
            ),
            ('<|tool_call|> [{"arguments": {}, "name": "ping"}]\n', "", [("ping", {})]),
            ('[{"name": "ping", "arguments": {}}]', '[{"name": "ping", "arguments": {}}]', []),
        ),
    ),
    Family(
        GRANITE_FUNCTION,
        chatml(each("{{ '<function_call> ' }}" + _object(), "\n")),
        (
            (
                (
                    '<function_call> {"name": "weather", "arguments": {"city": "Oslo", "days": 3}}\n<function_call> '
                    '{"name": "ping", "arguments": {}}'
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
        ),
    ),
    Family(
        COMMAND,
        chatml(
            "{{ '<|START_ACTION|>[\n    ' }}"
            + each(_object("tool_name", "parameters", '"tool_call_id": "0", '), ",\n    ")
            + "{{ '\n]<|END_ACTION|>' }}"
        ),
        (
            (
                (
                    '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "weather", "parameters": '
                    '{"city": "Oslo", "days": 3}},\n    {"tool_call_id": "1", "tool_name": "ping", "parameters": {}}\n]'
                    "<|END_ACTION|>"
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
        ),
    ),
    Family(
        COMMAND_R,
        chatml(
            "{{ 'Action: ```json\n[\n    ' }}" + each(_object("tool_name", "parameters"), ",\n    ") + "{{ '\n]```' }}"
        ),
        (
            (
                (
                    'Action: ```json\n[\n    {\n        "tool_name": "weather",\n        '
                    '"parameters": {"city": "Oslo", '
                    '"days": 3}\n    }\n]```'
                ),
                "",
                [("weather", OSLO)],
            ),
            ("Action: none", "Action: none", []),
        ),
    ),
    Family(
        PYTHONIC,
        chatml(
            "{{ '[' }}" + each("{{ f.name }}(" + _PYTHON_ARGUMENTS + ")", ", ") + "{{ ']' }}",
            "Answer as [func_name1(name1=value1), func_name2()].",
        ),
        (
            ('[weather(city="Oslo", days=3), ping()]', "", [("weather", OSLO), ("ping", {})]),
            (
                "[weather(city='it\\'s, [here]', tags=['a)', \"b\"], where={'x': -1.5}, exact=True, unit=None)]",
                "",
                [
                    (
                        "weather",
                        {
                            "city": "it's, [here]",
                            "tags": ["a)", "b"],
                            "where": {"x": -1.5},
                            "exact": True,
                            "unit": None,
                        },
                    )
                ],
            ),
            ("[weather(days=1 + 1)]", "[weather(days=1 + 1)]", []),
            ("[weather is here]", "[weather is here]", []),
            ("[weather(**x)]", "[weather(**x)]", []),
        ),
    ),
    Family(
        LLAMA4_PYTHONIC,
        chatml(
            "{{ '<|python_start|>[' }}"
            + each("{{ f.name }}(" + _PYTHON_ARGUMENTS + ")", ", ")
            + "{{ ']<|python_end|>' }}"
        ),
        (
            ('<|python_start|>[weather(city="Oslo", days=3)]<|python_end|>', "", [("weather", OSLO)]),
            ("[ping(), ping()]", "", [("ping", {}), ("ping", {})]),
        ),
    ),
    Family(
        LFM2,
        chatml(
            "{{ '<|tool_call_start|>[' }}"
            + each("{{ f.name }}(" + _PYTHON_ARGUMENTS + ")", ", ")
            + "{{ ']<|tool_call_end|>' }}"
        ),
        (('<|tool_call_start|>[weather(city="Oslo", days=3)]<|tool_call_end|>So.', "So.", [("weather", OSLO)]),),
    ),
    Family(
        OLMO3,
        chatml(
            "{{ '<function_calls>' }}"
            + each("{{ f.name }}(" + _PYTHON_ARGUMENTS + ")", "\n")
            + "{{ '</function_calls>' }}"
        ),
        (
            (
                '<function_calls>weather(city="Oslo", days=3)\nping()</function_calls>',
                "",
                [("weather", OSLO), ("ping", {})],
            ),
            (
                "<function_calls>\n[weather(city='x', exact=true, unit=null)]\n</function_calls>",
                "",
                [("weather", {"city": "x", "exact": True, "unit": None})],
            ),
        ),
    ),
    Family(
        KIMI_K2,
        chatml(
            "{{ '<|tool_calls_section_begin|>' }}{% for call in message.tool_calls %}"
            "{{ '<|tool_call_begin|>' + call.id + '<|tool_call_argument_begin|>' }}"
            "{{ (call.function.arguments | tojson) + '<|tool_call_end|>' }}{% endfor %}{{ "
            "'<|tool_calls_section_end|>' }}"
        ),
        (
            (
                (
                    "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
                    '{"city": "Oslo", "days": 3}<|tool_call_end|><|tool_call_begin|>functions.ping:1'
                    "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
        ),
    ),
    Family(
        MINIMAX_M1,
        chatml("{{ '<tool_calls>\n' }}" + each(_object(), "\n") + "{{ '\n</tool_calls>' }}"),
        (
            (
                (
                    '<tool_calls>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}\n'
                    '{"name": "ping", "arguments": {}}\n</tool_calls>'
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
            # The layout of Jamba and Hunyuan.
            ('<tool_calls>[\n  {"name": "ping", "arguments": {}}\n]</tool_calls>', "", [("ping", {})]),
        ),
    ),
    Family(
        MINIMAX_M2,
        chatml(
            "{{ '<minimax:tool_call>\n' }}"
            + each(
                _tagged(
                    "'<invoke name=\"' + f.name + '\">\n'",
                    "'<parameter name=\"' + key + '\">'",
                    "</parameter>\n",
                    "</invoke>",
                ),
                "\n",
            )
            + "{{ '\n</minimax:tool_call>' }}"
        ),
        (
            (
                (
                    '<minimax:tool_call>\n<invoke name="weather">\n<parameter name="city">Oslo</parameter>\n'
                    '<parameter name="days">3</parameter>\n</invoke>\n<invoke '
                    'name="ping">\n</invoke>\n</minimax:tool_call>'
                ),
                "",
                [("weather", OSLO), ("ping", {})],
            ),
        ),
    ),
    Family(
        SEED_OSS,
        chatml(
            each(
                "{{ '<seed:tool_call>\n' }}"
                + _tagged("'<function=' + f.name + '>\n'", "'<parameter=' + key + '>'", "</parameter>\n", "</function>")
                + "{{ '\n</seed:tool_call>' }}",
                "\n",
            )
        ),
        (
            (
                (
                    "<seed:tool_call>\n<function=weather>\n<parameter=city>Oslo</parameter>\n<parameter=days>3</parameter>\n"
                    "</function>\n</seed:tool_call>"
                ),
                "",
                [("weather", OSLO)],
            ),
        ),
    ),
    Family(
        INTERNLM2,
        chatml(each("{{ '<|action_start|><|plugin|>\n' }}" + _object("name", "parameters") + "{{ '<|action_end|>' }}")),
        (
            (
                (
                    'I look.<|action_start|><|plugin|>\n{"name": "weather", "parameters": {"city": "Oslo", "days": 3}}'
                    "<|action_end|>"
                ),
                "I look.",
                [("weather", OSLO)],
            ),
        ),
    ),
    Family(
        FUNCTION_GEMMA,
        chatml(
            each(
                "{{ '<start_function_call>call:' + f.name + '{' }}"
                + _GEMMA_ARGUMENTS.replace("QUOTE", "'<escape>'")
                + "{{ '}<end_function_call>' }}"
            )
        ),
        (
            (
                "<start_function_call>call:weather{city:<escape>Oslo<escape>,days:3}<end_function_call>",
                "",
                [("weather", OSLO)],
            ),
            (
                (
                    "<start_function_call>call:weather{city:<escape>a}, "
                    "b:{<escape>,tags:[<escape>x<escape>,<escape>y,<escape>],"
                    "where:{x:{y:-1.5}},exact:true}<end_function_call><start_function_call>call:ping{}<end_function_call>"
                ),
                "",
                [
                    ("weather", {"city": "a}, b:{", "tags": ["x", "y,"], "where": {"x": {"y": -1.5}}, "exact": True}),
                    ("ping", {}),
                ],
            ),
        ),
    ),
    Family(
        GEMMA4,
        chatml(
            each(
                "{{ '<|tool_call>call:' + f.name + '{' }}"
                + _GEMMA_ARGUMENTS.replace("QUOTE", "'<|\"|>'")
                + "{{ '}<tool_call|>' }}"
            )
        ),
        (('<|tool_call>call:weather{city:<|"|>Oslo<|"|>,days:3}<tool_call|>', "", [("weather", OSLO)]),),
    ),
    Family(
        APERTUS,
        chatml(
            "{{ '<|tools_prefix|>[' }}"
            + each("{{ '{\"' + f.name + '\": ' + (f.arguments | tojson) + '}' }}", ", ")
            + "{{ ']<|tools_suffix|>' }}"
        ),
        (
            (
                '<|tools_prefix|>[{"weather": {"city": "Oslo", "days": 3}}, {"ping": {}}]<|tools_suffix|>',
                "",
                [("weather", OSLO), ("ping", {})],
            ),
        ),
    ),
    Family(
        NEMOTRON,
        chatml("{{ '<TOOLCALL>[' }}" + each(_object(), ", ") + "{{ ']</TOOLCALL>' }}"),
        (
            (
                '<TOOLCALL>[{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}]</TOOLCALL>',
                "",
                [("weather", OSLO)],
            ),
        ),
    ),
    Family(
        FUNCTION_TAG,
        chatml(each("{{ '<function=' + f.name + '>' + (f.arguments | tojson) + '</function>' }}", "\n")),
        (
            (
                '<function=weather>{"city": "Oslo", "days": 3}</function>\n<function=ping>{}</function>',
                "",
                [("weather", OSLO), ("ping", {})],
            ),
        ),
    ),
    Family(
        HERMES,
        chatml(each("{{ '<tool_call>\n' }}" + _object() + "{{ '\n</tool_call>' }}", "\n")),
        (
            (
                '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}\n</tool_call>',
                "",
                [("weather", OSLO)],
            ),
        ),
    ),
    Family(
        MISTRAL_NAMED,
        chatml(each("{{ '[TOOL_CALLS]' + f.name + '[ARGS]' + (f.arguments | tojson) }}")),
        (
            (
                '[TOOL_CALLS]weather[ARGS]{"city": "Oslo", "days": 3}[TOOL_CALLS]ping[ARGS]{}',
                "",
                [("weather", OSLO), ("ping", {})],
            ),
        ),
    ),
    Family(
        MISTRAL,
        chatml("{{ '[TOOL_CALLS][' }}" + each(_object(), ", ") + "{{ ']' }}"),
        (
            (
                '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}]',
                "",
                [("weather", OSLO)],
            ),
        ),
    ),
    Family(
        LLAMA3,
        chatml(
            each(
                "{{ '{\"name\": \"' + f.name + '\", ' }}{{ '\"parameters\": ' }}{{ (f.arguments | tojson) + '}' }}",
                "; ",
            )
        ),
        (('{"name": "weather", "parameters": {"city": "Oslo", "days": 3}}', "", [("weather", OSLO)]),),
    ),
    Family(
        PLAIN_JSON,
        chatml(each("{{ f | tojson }}", "\n")),
        (('{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}', "", [("weather", OSLO)]),),
    ),
]


_PINGS = {
    "harmony": "<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{}",
    "qwen3-coder": "<tool_call>\n<function=ping>\n</function>\n</tool_call>",
    "deepseek-v3": _deepseek("{calls}{call}function{sep}ping\n```json\n{{}}\n```{call_end}{end}"),
    "deepseek-v3.1": _deepseek("{calls}{call}ping{sep}{{}}{call_end}{end}"),
    "glm-4.5": "<tool_call>ping\n</tool_call>",
    "glm-4": "ping\n{}",
    "phi-4-mini": '<|tool_call|>[{"name": "ping", "arguments": {}}]<|/tool_call|>',
    "granite": '<|tool_call|>[{"name": "ping", "arguments": {}}]',
    "granite-20b": '<function_call> {"name": "ping", "arguments": {}}',
    "command-a": '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "ping", "parameters": {}}\n]<|END_ACTION|>',
    "command-r": 'Action: ```json\n[\n    {"tool_name": "ping", "parameters": {}}\n]```',
    "pythonic": "[ping()]",
    "llama4-pythonic": "[ping()]",
    "lfm2": "<|tool_call_start|>[ping()]<|tool_call_end|>",
    "olmo3": "<function_calls>ping()</function_calls>",
    "kimi-k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}"
    "<|tool_call_end|><|tool_calls_section_end|>",
    "minimax-m1": '<tool_calls>\n{"name": "ping", "arguments": {}}\n</tool_calls>',
    "minimax-m2": '<minimax:tool_call>\n<invoke name="ping">\n</invoke>\n</minimax:tool_call>',
    "seed-oss": "<seed:tool_call>\n<function=ping>\n</function>\n</seed:tool_call>",
    "internlm2": '<|action_start|><|plugin|>\n{"name": "ping", "parameters": {}}<|action_end|>',
    "functiongemma": "<start_function_call>call:ping{}<end_function_call>",
    "gemma4": "<|tool_call>call:ping{}<tool_call|>",
    "apertus": '<|tools_prefix|>[{"ping": {}}]<|tools_suffix|>',
    "nemotron": '<TOOLCALL>[{"name": "ping", "arguments": {}}]</TOOLCALL>',
    "function-tag": "<function=ping>{}</function>",
    "hermes": '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>',
    "mistral-named": "[TOOL_CALLS]ping[ARGS]{}",
    "mistral": '[TOOL_CALLS][{"name": "ping", "arguments": {}}]',
    "llama3": '{"name": "ping", "parameters": {}}',
    "json": '{"name": "ping", "arguments": {}}',
}

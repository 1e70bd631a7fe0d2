"""Answers with calls of a name followed by its arguments, and templates with such calls, by family."""

from __future__ import annotations

from service.output.families.named_calls import (
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    FUNCTION_TAG,
    GLM4,
    HARMONY,
    KIMI_K2,
    MISTRAL_NAMED,
)
from tests.service.output.families.family import OSLO, Family, chatml, each

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


NAMED_FAMILIES = [
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
        "<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{}",
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
        _deepseek("{calls}{call}function{sep}ping\n```json\n{{}}\n```{call_end}{end}"),
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
        _deepseek("{calls}{call}ping{sep}{{}}{call_end}{end}"),
    ),
    Family(
        GLM4,
        _GLM4,
        (
            ('weather\n{"city": "Oslo", "days": 3}', "", [("weather", OSLO)]),
            ("weather is fine", "weather is fine", []),
            ("It is\nping\n{}", "It is\nping\n{}", []),
        ),
        "ping\n{}",
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
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}"
            "<|tool_call_end|><|tool_calls_section_end|>"
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
        "<function=ping>{}</function>",
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
        "[TOOL_CALLS]ping[ARGS]{}",
    ),
]

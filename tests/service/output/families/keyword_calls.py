"""Answers with calls of keyword arguments, and templates with such calls, by family."""

from __future__ import annotations

from service.output.families.keyword_calls import FUNCTION_GEMMA, GEMMA4, LFM2, LLAMA4_PYTHONIC, OLMO3, PYTHONIC
from tests.service.output.families.family import OSLO, Family, chatml, each

_PYTHON_ARGUMENTS = (
    "{% for key, value in f.arguments.items() %}{{ key }}={{ value | tojson }}"
    "{% if not loop.last %}, {% endif %}{% endfor %}"
)
_GEMMA = (
    "{% macro write(value) %}{% if value is string %}{{ QUOTE + value + QUOTE }}{% elif value is mapping %}{{ '{' }}"
    "{% for key, each in value | dictsort %}{{ key }}:{{ write(each) }}{{ ',' if not loop.last }}{% endfor %}{{ '}' }}"
    "{% elif value is sequence %}{{ '[' }}{% for each in value %}{{ write(each) }}{{ ',' if not loop.last }}"
    "{% endfor %}{{ ']' }}{% elif value is boolean %}{{ 'true' if value else 'false' }}{% else %}{{ value }}{% endif %}"
    "{% endmacro %}"
)


def _gemma(opening: str, closing: str, quote: str) -> str:
    call = f"{{{{ '{opening}call:' + f.name }}}}{{{{ write(f.arguments) }}}}{{{{ '{closing}' }}}}"
    return _GEMMA.replace("QUOTE", repr(quote)) + chatml(each(call))


KEYWORD_FAMILIES = [
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
        "[ping()]",
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
        "[ping()]",
    ),
    Family(
        LFM2,
        chatml(
            "{{ '<|tool_call_start|>[' }}"
            + each("{{ f.name }}(" + _PYTHON_ARGUMENTS + ")", ", ")
            + "{{ ']<|tool_call_end|>' }}"
        ),
        (('<|tool_call_start|>[weather(city="Oslo", days=3)]<|tool_call_end|>So.', "So.", [("weather", OSLO)]),),
        "<|tool_call_start|>[ping()]<|tool_call_end|>",
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
        "<function_calls>ping()</function_calls>",
    ),
    Family(
        FUNCTION_GEMMA,
        _gemma("<start_function_call>", "<end_function_call>", "<escape>"),
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
        "<start_function_call>call:ping{}<end_function_call>",
    ),
    Family(
        GEMMA4,
        _gemma("<|tool_call>", "<tool_call|>", '<|"|>'),
        (('<|tool_call>call:weather{city:<|"|>Oslo<|"|>,days:3}<tool_call|>', "", [("weather", OSLO)]),),
        "<|tool_call>call:ping{}<tool_call|>",
    ),
]

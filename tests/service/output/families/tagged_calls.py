"""Answers with calls in tags, and templates with such calls, by family."""

from __future__ import annotations

from service.output.families.tagged_calls import DEEPSEEK_V32, GLM45, MINIMAX_M2, QWEN_CODER, SEED_OSS, STEP3
from tests.service.output.families.family import OSLO, Family, chatml, each

_STEP3_BEGIN, _STEP3_END = "<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"  # noqa: RUF001  full-width bars
_STEP3_CALL = '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="'  # noqa: RUF001
_STEP3_HISTORY = '<｜tool_call_begin>｜>function<｜tool_sep｜><steptml:invoke name="'  # noqa: RUF001
_DSML = "｜DSML｜"  # noqa: RUF001
_STEP3_CALL_END = "<｜tool_call_end｜>"  # noqa: RUF001


def _tagged(name: str, key: str, value_end: str, call_end: str, around: str = "") -> str:
    return (
        f"{{{{ {name} }}}}{{% for key, value in f.arguments.items() %}}{{{{ {key} }}}}{{{{ {around!r} }}}}"
        "{{ value if value is string else (value | tojson) }}"
        f"{{{{ {around!r} + {value_end!r} }}}}{{% endfor %}}{{{{ {call_end!r} }}}}"
    )


TAGGED_FAMILIES = [
    Family(
        DEEPSEEK_V32,
        chatml(
            f"{{{{ '<{_DSML}function_calls>\n' }}}}"
            + each(
                f"{{{{ '<{_DSML}invoke name=\"' + f.name + '\">\n' }}}}"
                "{% for key, value in f.arguments.items() %}"
                f"{{{{ '<{_DSML}parameter name=\"' + key + '\" string=\"' }}}}"
                "{{ 'true' if value is string else 'false' }}{{ '\">' }}"
                "{{ value if value is string else value | tojson }}"
                f"{{{{ '</{_DSML}parameter>\n' }}}}{{% endfor %}}{{{{ '</{_DSML}invoke>\n' }}}}"
            )
            + f"</{_DSML}function_calls>"
        ),
        (
            (
                (
                    f'So:\n\n<{_DSML}function_calls>\n<{_DSML}invoke name="weather">\n'
                    f'<{_DSML}parameter name="city" string="true">if a < b:\n  say("</p")</{_DSML}parameter>\n'
                    f'<{_DSML}parameter name="tags" string="false">["x", "y"]</{_DSML}parameter>\n'
                    f'<{_DSML}parameter name="unit" string="false">null</{_DSML}parameter>\n'
                    f'</{_DSML}invoke>\n<{_DSML}invoke name="ping">\n</{_DSML}invoke>\n</{_DSML}function_calls>'
                ),
                "So:",
                [
                    ("weather", {"city": 'if a < b:\n  say("</p")', "tags": ["x", "y"], "unit": None}),
                    ("ping", {}),
                ],
            ),
            # The attribute decides where the schema allows both; otherwise the schema does.
            (
                (
                    f'<{_DSML}function_calls><{_DSML}invoke name="weather">'
                    f'<{_DSML}parameter name="city" string="false">12</{_DSML}parameter>'
                    f'<{_DSML}parameter name="unit" string="true">null</{_DSML}parameter>'
                    f'<{_DSML}parameter name="days" string="true">3</{_DSML}parameter>'
                    f"</{_DSML}invoke></{_DSML}function_calls>"
                ),
                "",
                [("weather", {"city": "12", "unit": "null", "days": 3})],
            ),
        ),
        f'<{_DSML}function_calls>\n<{_DSML}invoke name="ping">\n</{_DSML}invoke>\n</{_DSML}function_calls>',
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
        "<tool_call>\n<function=ping>\n</function>\n</tool_call>",
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
        "<tool_call>ping\n</tool_call>",
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
        '<minimax:tool_call>\n<invoke name="ping">\n</invoke>\n</minimax:tool_call>',
    ),
    Family(
        STEP3,
        chatml(
            f"{{{{ '{_STEP3_BEGIN}\n' }}}}"
            + each(
                _tagged(
                    f"'{_STEP3_CALL}' + f.name + '\">\n'",
                    "'<steptml:parameter name=\"' + key + '\">'",
                    "</steptml:parameter>\n",
                    f"</steptml:invoke>{_STEP3_CALL_END}\n",
                )
            )
            + f"{{{{ '{_STEP3_END}' }}}}"
        ),
        (
            (
                (
                    f'So:\n{_STEP3_BEGIN}\n{_STEP3_CALL}weather">\n<steptml:parameter name="city">a < b'
                    '</steptml:parameter>\n<steptml:parameter name="days">3</steptml:parameter>\n'
                    f'</steptml:invoke>{_STEP3_CALL_END}\n{_STEP3_CALL}ping"></steptml:invoke>{_STEP3_CALL_END}\n'
                    f"{_STEP3_END}"
                ),
                "So:",
                [("weather", {"city": "a < b", "days": 3}), ("ping", {})],
            ),
            # The opening that the template writes into the history.
            (
                f'{_STEP3_BEGIN}{_STEP3_HISTORY}ping"></steptml:invoke>{_STEP3_CALL_END}',
                "",
                [("ping", {})],
            ),
        ),
        f'{_STEP3_BEGIN}\n{_STEP3_CALL}ping">\n</steptml:invoke>{_STEP3_CALL_END}\n{_STEP3_END}',
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
        "<seed:tool_call>\n<function=ping>\n</function>\n</seed:tool_call>",
    ),
]

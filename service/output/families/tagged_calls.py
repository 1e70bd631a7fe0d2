"""The syntaxes of tool calls with their name and each parameter in tags."""

from __future__ import annotations

from service.output.families.tool_syntax import TaggedCall, ToolSyntax

_FUNCTION_TAGS = TaggedCall(
    name_open="<function=",
    name_close=">",
    key_open="<parameter=",
    key_close=">",
    value_close="</parameter>",
    call_close="</function>",
)

SEED_OSS = ToolSyntax(
    "seed-oss",
    "Seed-OSS",
    _FUNCTION_TAGS,
    begin="<seed:tool_call>",
    end="</seed:tool_call>",
    before_call="\n",
    after_call="\n",
    between_calls="\n",
    marks=(("<seed:tool_call>",),),
    tokens=("<seed:tool_call>",),
)
MINIMAX_M2 = ToolSyntax(
    "minimax-m2",
    "MiniMax M2",
    TaggedCall(
        name_open='<invoke name="',
        name_close='">',
        key_open='<parameter name="',
        key_close='">',
        value_close="</parameter>",
        call_close="</invoke>",
    ),
    begin="<minimax:tool_call>",
    end="</minimax:tool_call>",
    before_call="\n",
    after_call="\n",
    between_calls="\n",
    begins_each_call=False,
    marks=(("<minimax:tool_call>",),),
    tokens=("<minimax:tool_call>",),
)
DEEPSEEK_V32 = ToolSyntax(
    "deepseek-v3.2",
    "DeepSeek V3.2",
    TaggedCall(
        name_open='<｜DSML｜invoke name="',  # noqa: RUF001  full-width bars
        name_close='">',
        key_open='<｜DSML｜parameter name="',  # noqa: RUF001
        key_close='"',
        typed_opens=(' string="true">', ' string="false">'),
        value_close="</｜DSML｜parameter>",  # noqa: RUF001
        call_close="</｜DSML｜invoke>",  # noqa: RUF001
    ),
    begin="<｜DSML｜function_calls>",  # noqa: RUF001
    end="</｜DSML｜function_calls>",  # noqa: RUF001
    before_call="\n",
    after_call="\n",
    between_calls="\n",
    begins_each_call=False,
    marks=(("｜DSML｜",),),  # noqa: RUF001
    tokens=("｜DSML｜",),  # noqa: RUF001
)
# The template of Step-3 writes the first marker of a call in two ways.
STEP3 = ToolSyntax(
    "step3",
    "Step-3",
    TaggedCall(
        name_open='<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="',  # noqa: RUF001  full-width bars
        name_close='">',
        key_open='<steptml:parameter name="',
        key_close='">',
        value_close="</steptml:parameter>",
        call_close="</steptml:invoke><｜tool_call_end｜>",  # noqa: RUF001
        is_compact_too=True,
        also_open=('<｜tool_call_begin>｜>function<｜tool_sep｜><steptml:invoke name="',),  # noqa: RUF001
    ),
    begin="<｜tool_calls_begin｜>",  # noqa: RUF001
    end="<｜tool_calls_end｜>",  # noqa: RUF001
    before_call="\n",
    after_call="\n",
    between_calls="\n",
    begins_each_call=False,
    marks=(("<steptml:invoke",),),
    tokens=("<｜tool_calls_begin｜>",),  # noqa: RUF001
)
GLM45 = ToolSyntax(
    "glm-4.5",
    "GLM-4.5, 4.6 and 4.7",
    TaggedCall(
        name_open="",
        name_close="",
        key_open="<arg_key>",
        key_close="</arg_key>",
        value_open="<arg_value>",
        value_close="</arg_value>",
        call_close="</tool_call>",
        before_value="\n",
        is_compact_too=True,
    ),
    begin="<tool_call>",
    between_calls="\n",
    marks=(("<tool_call>", "<arg_key>"),),
)
QWEN_CODER = ToolSyntax(
    "qwen3-coder",
    "Qwen3-Coder, Qwen3.5, Step-3.5",
    TaggedCall(
        name_open=_FUNCTION_TAGS.name_open,
        name_close=_FUNCTION_TAGS.name_close,
        key_open=_FUNCTION_TAGS.key_open,
        key_close=_FUNCTION_TAGS.key_close,
        value_close=_FUNCTION_TAGS.value_close,
        call_close=_FUNCTION_TAGS.call_close,
        around_value="\n",
    ),
    begin="<tool_call>",
    end="</tool_call>",
    opens_call="<function=",
    before_call="\n",
    after_call="\n",
    between_calls="\n",
    marks=(("<tool_call>", "<function=", "<parameter="),),
)

"""The syntaxes of tool calls with a name followed by the arguments as a JSON object."""

from __future__ import annotations

from service.output.families.tool_syntax import ChannelCall, NamedCall, ToolSyntax

HARMONY = ToolSyntax(
    "harmony",
    "gpt-oss",
    ChannelCall(),
    begin="<|channel|>commentary to=functions.",
    also_begin=(" to=functions.",),
    writes_also_begin=True,
    marks=(("<|channel|>", "<|message|>"),),
)
KIMI_K2 = ToolSyntax(
    "kimi-k2",
    "Kimi K2",
    NamedCall(
        before="<|tool_call_begin|>functions.",
        between="<|tool_call_argument_begin|>",
        between_pattern=r"\s*:\s*\d{1,9}\s*<\|tool_call_argument_begin\|>\s*",
        after=("<|tool_call_end|>",),
        after_text="<|tool_call_end|>",
        is_numbered=True,
    ),
    begin="<|tool_calls_section_begin|>",
    end="<|tool_calls_section_end|>",
    begins_each_call=False,
    marks=(("<|tool_calls_section_begin|>",),),
    tokens=("<|tool_calls_section_begin|>",),
    id_names_function=True,
)
_DEEPSEEK_BEGIN, _DEEPSEEK_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"  # noqa: RUF001  full-width bars
_DEEPSEEK_CALL, _DEEPSEEK_CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"  # noqa: RUF001
_DEEPSEEK_SEPARATOR = "<｜tool▁sep｜>"  # noqa: RUF001
DEEPSEEK_V3 = ToolSyntax(
    "deepseek-v3",
    "DeepSeek V3, R1 and its distillations",
    NamedCall(
        before=f"{_DEEPSEEK_CALL}function{_DEEPSEEK_SEPARATOR}",
        between="\n```json\n",
        between_pattern=r"\s*```(?:json)?\s*",
        after=("```", _DEEPSEEK_CALL_END),
        after_text=f"\n```{_DEEPSEEK_CALL_END}",
    ),
    begin=_DEEPSEEK_BEGIN,
    end=_DEEPSEEK_END,
    between_calls="\n",
    begins_each_call=False,
    marks=((_DEEPSEEK_BEGIN, "```json"),),
)
DEEPSEEK_V31 = ToolSyntax(
    "deepseek-v3.1",
    "DeepSeek V3.1",
    NamedCall(
        before=_DEEPSEEK_CALL,
        between=_DEEPSEEK_SEPARATOR,
        between_pattern=rf"\s*{_DEEPSEEK_SEPARATOR}\s*",
        after=(_DEEPSEEK_CALL_END,),
        after_text=_DEEPSEEK_CALL_END,
    ),
    begin=_DEEPSEEK_BEGIN,
    end=_DEEPSEEK_END,
    begins_each_call=False,
    marks=((_DEEPSEEK_BEGIN,),),
    tokens=(_DEEPSEEK_BEGIN,),
)
# Mistral's templates reject call ids of any other form.
MISTRAL_NAMED = ToolSyntax(
    "mistral-named",
    "Mistral Small 3.2, Magistral, Devstral, Ministral 3",
    NamedCall(
        between="[ARGS]",
        between_pattern=r"\s*(?:\[CALL_ID\]\s*[A-Za-z0-9]{1,64}\s*)?(?:\[ARGS\])?\s*",
        id_marker="[CALL_ID]",
    ),
    begin="[TOOL_CALLS]",
    marks=(("[TOOL_CALLS]", "[ARGS]"),),
    id_prefix="",
    id_length=9,
)
FUNCTION_TAG = ToolSyntax(
    "function-tag",
    "Functionary 3.1, Llama 3.1 with tagged functions",
    NamedCall(between=">", between_pattern=r"\s*>\s*"),
    begin="<function=",
    end="</function>",
    between_calls="\n",
    marks=(("<function=", "</function>"),),
)
GLM4 = ToolSyntax(
    "glm-4",
    "GLM-4 and GLM-Z1",
    NamedCall(between="\n"),
    bare=True,
    between_calls="\n",
    marks=(("[gMASK]", "<|observation|>"),),
)

"""The model families whose tool calls are parsed and enforced, and the detection of a model's family.

Each row is one syntax of calls; families with the same syntax share it.
"""

from __future__ import annotations

from collections.abc import Collection

from service.output.families.tool_syntax import (
    BracedCall,
    ChannelCall,
    NamedCall,
    ObjectCall,
    PythonicCall,
    TaggedCall,
    ToolSyntax,
)

_FUNCTION_TAGS = TaggedCall(
    name_open="<function=",
    name_close=">",
    key_open="<parameter=",
    key_close=">",
    value_close="</parameter>",
    call_close="</function>",
)

HARMONY = ToolSyntax(
    "harmony",
    "gpt-oss",
    ChannelCall(),
    begin="<|channel|>commentary to=functions.",
    marks=(("<|channel|>", "<|message|>"),),
)
GEMMA4 = ToolSyntax(
    "gemma4",
    "Gemma 4",
    BracedCall(quote='<|"|>'),
    begin="<|tool_call>",
    end="<tool_call|>",
    marks=(("<|tool_call>",),),
)
FUNCTION_GEMMA = ToolSyntax(
    "functiongemma",
    "FunctionGemma",
    BracedCall(),
    begin="<start_function_call>",
    end="<end_function_call>",
    marks=(("<start_function_call>",),),
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
    ),
    begin="<tool_call>",
    between_calls="\n",
    marks=(("<tool_call>", "<arg_key>"),),
)
QWEN_CODER = ToolSyntax(
    "qwen3-coder",
    "Qwen3-Coder, Qwen3.5",
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
COMMAND = ToolSyntax(
    "command-a",
    "Command A and R7B",
    ObjectCall(name_key="tool_name", arguments_key="parameters", lead='"tool_call_id": "0", '),
    begin="<|START_ACTION|>",
    end="<|END_ACTION|>",
    before_call="[\n    ",
    after_call="\n]",
    between_calls=",\n    ",
    begins_each_call=False,
    marks=(("<|START_ACTION|>",),),
    tokens=("<|START_ACTION|>",),
)
COMMAND_R = ToolSyntax(
    "command-r",
    "Command R and R+",
    ObjectCall(name_key="tool_name", arguments_key="parameters"),
    begin="Action: ```json",
    end="```",
    also_begin=("Action:```json",),
    before_call="\n[\n    ",
    after_call="\n]",
    between_calls=",\n    ",
    begins_each_call=False,
    marks=(("Action: ```json",), ("Action:```json",), ("directly_answer",), ("directly-answer",)),
)
INTERNLM2 = ToolSyntax(
    "internlm2",
    "InternLM2 and 2.5",
    ObjectCall(arguments_key="parameters"),
    begin="<|action_start|><|plugin|>",
    end="<|action_end|>",
    before_call="\n",
    marks=(("<|action_start|>",),),
    tokens=("<|action_start|>", "<|plugin|>"),
)
PHI4_MINI = ToolSyntax(
    "phi-4-mini",
    "Phi-4-mini",
    begin="<|tool_call|>",
    end="<|/tool_call|>",
    also_begin=("functools",),
    before_call="[",
    after_call="]",
    between_calls=", ",
    begins_each_call=False,
    marks=(("<|tool|>", "<|/tool|>"), ("<|/tool_call|>",), ("functools[",)),
    tokens=("<|/tool_call|>",),
)
GRANITE = ToolSyntax(
    "granite",
    "Granite 3",
    begin="<|tool_call|>",
    also_begin=("<tool_call>",),
    before_call="[",
    after_call="]",
    between_calls=", ",
    begins_each_call=False,
    marks=(("<|tool_call|>",),),
    tokens=("<|tool_call|>",),
)
GRANITE_FUNCTION = ToolSyntax(
    "granite-20b",
    "Granite 20B function calling",
    begin="<function_call>",
    before_call=" ",
    between_calls="\n",
    marks=(("<function_call>",),),
)
OLMO3 = ToolSyntax(
    "olmo3",
    "OLMo 3",
    PythonicCall("true", "false", "null"),
    begin="<function_calls>",
    end="</function_calls>",
    between_calls="\n",
    begins_each_call=False,
    marks=(("<function_calls>",),),
)
LLAMA4_PYTHONIC = ToolSyntax(
    "llama4-pythonic",
    "Llama 4",
    PythonicCall(),
    begin="<|python_start|>",
    end="<|python_end|>",
    bare=True,
    before_call="[",
    after_call="]",
    between_calls=", ",
    begins_each_call=False,
    marks=(("<|python_start|>",),),
)
LFM2 = ToolSyntax(
    "lfm2",
    "LFM2",
    PythonicCall(),
    begin="<|tool_call_start|>",
    end="<|tool_call_end|>",
    before_call="[",
    after_call="]",
    between_calls=", ",
    begins_each_call=False,
    marks=(("<|tool_call_start|>",),),
    tokens=("<|tool_call_start|>",),
)
PYTHONIC = ToolSyntax(
    "pythonic",
    "Llama 3.2 with a pythonic prompt, ToolACE",
    PythonicCall(),
    bare=True,
    before_call="[",
    after_call="]",
    between_calls=", ",
    begins_each_call=False,
    marks=(("func_name1(",), ("func_name(",), ("function_name(",)),
)
APERTUS = ToolSyntax(
    "apertus",
    "Apertus",
    ObjectCall(keyed=True),
    begin="<|tools_prefix|>",
    end="<|tools_suffix|>",
    before_call="[",
    after_call="]",
    between_calls=", ",
    begins_each_call=False,
    marks=(("<|tools_prefix|>",),),
    tokens=("<|tools_prefix|>",),
)
NEMOTRON = ToolSyntax(
    "nemotron",
    "Nemotron Nano and Super",
    begin="<TOOLCALL>",
    end="</TOOLCALL>",
    before_call="[",
    after_call="]",
    between_calls=", ",
    begins_each_call=False,
    marks=(("<TOOLCALL>",),),
)
MINIMAX_M1 = ToolSyntax(
    "minimax-m1",
    "MiniMax M1, Hunyuan, Jamba",
    begin="<tool_calls>",
    end="</tool_calls>",
    before_call="\n",
    after_call="\n",
    between_calls="\n",
    begins_each_call=False,
    marks=(("<tool_calls>",),),
)
HERMES = ToolSyntax(
    "hermes",
    "Qwen2.5, Qwen3, Hermes, EXAONE 4, Granite 4, SmolLM3",
    begin="<tool_call>",
    end="</tool_call>",
    before_call="\n",
    after_call="\n",
    between_calls="\n",
    marks=(("<tool_call>",),),
)
# Mistral's templates reject call ids of any other form.
MISTRAL_NAMED = ToolSyntax(
    "mistral-named",
    "Mistral Small 3.2, Magistral, Devstral, Ministral 3",
    NamedCall(between="[ARGS]", between_pattern=r"\s*(?:\[CALL_ID\]\s*[A-Za-z0-9]{1,64}\s*)?(?:\[ARGS\])?\s*"),
    begin="[TOOL_CALLS]",
    marks=(("[TOOL_CALLS]", "[ARGS]"),),
    id_prefix="",
    id_length=9,
)
MISTRAL = ToolSyntax(
    "mistral",
    "Mistral 7B v0.3, NeMo, Mixtral",
    begin="[TOOL_CALLS]",
    before_call="[",
    after_call="]",
    between_calls=", ",
    begins_each_call=False,
    marks=(("[TOOL_CALLS]",),),
    id_prefix="",
    id_length=9,
)
FUNCTION_TAG = ToolSyntax(
    "function-tag",
    "Functionary 3.1, Llama 3.1 with tagged functions",
    NamedCall(between=">", between_pattern=r"\s*>\s*"),
    begin="<function=",
    end="</function>",
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
LLAMA3 = ToolSyntax(
    "llama3",
    "Llama 3.1, 3.2 and 3.3",
    ObjectCall(arguments_key="parameters"),
    begin="<|python_tag|>",
    bare=True,
    separators=";",
    between_calls="; ",
    marks=(("<|python_tag|>",), ('"parameters": ',)),
)
PLAIN_JSON = ToolSyntax("json", "any other", bare=True, separators=";,", between_calls="\n")

# In the order of detection: marks that also occur in another family's templates come later.
_ROWS = (
    *(HARMONY, GEMMA4, FUNCTION_GEMMA, KIMI_K2, DEEPSEEK_V3, DEEPSEEK_V31, SEED_OSS, MINIMAX_M2, GLM45, QWEN_CODER),
    *(COMMAND, COMMAND_R, INTERNLM2, PHI4_MINI, GRANITE, GRANITE_FUNCTION, OLMO3, LLAMA4_PYTHONIC, LFM2, PYTHONIC),
    *(APERTUS, NEMOTRON, MINIMAX_M1, HERMES, MISTRAL_NAMED, MISTRAL, FUNCTION_TAG, GLM4, LLAMA3, PLAIN_JSON),
)
SYNTAXES = {syntax.name: syntax for syntax in _ROWS}


def tool_syntax(template: str, tokens: Collection[str] = ()) -> ToolSyntax:
    """Return the syntax that a chat template's source contains, or else the one of the tokenizer's `tokens`.

    It is plain JSON if neither has a known syntax.
    """
    for syntax in _ROWS:
        if any(all(mark in template for mark in marks) for marks in syntax.marks):
            return syntax
    for syntax in _ROWS:
        if syntax.tokens and all(token in tokens for token in syntax.tokens):
            return syntax
    return PLAIN_JSON

"""The syntaxes of tool calls that are JSON objects."""

from __future__ import annotations

from service.output.families.tool_syntax import ObjectCall, ToolSyntax

COMMAND = ToolSyntax(
    "command-a",
    "Command A and R7B",
    ObjectCall(name_key="tool_name", arguments_key="parameters", number_key="tool_call_id", is_indented=True),
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
    ObjectCall(name_key="tool_name", arguments_key="parameters", is_indented=True),
    begin="Action: ```json",
    end="```",
    also_begin=("Action:```json", "Action:\n```json"),
    writes_also_begin=True,
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
    also_brackets=True,
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
MISTRAL = ToolSyntax(
    "mistral",
    "Mistral 7B v0.3, NeMo, Mixtral",
    ObjectCall(id_key="id"),
    begin="[TOOL_CALLS]",
    before_call="[",
    after_call="]",
    between_calls=", ",
    begins_each_call=False,
    marks=(("[TOOL_CALLS]",),),
    id_prefix="",
    id_length=9,
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

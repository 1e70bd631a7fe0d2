"""The syntaxes of tool calls with keyword arguments: in Python's syntax, or in braces with bare keys."""

from __future__ import annotations

from service.output.families.tool_syntax import BracedCall, PythonicCall, ToolSyntax

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
OLMO3 = ToolSyntax(
    "olmo3",
    "OLMo 3",
    PythonicCall(),
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

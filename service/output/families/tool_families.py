"""The table of model families whose tool calls are parsed and enforced, and the detection of a model's family.

Each row is one syntax of calls; families with the same syntax share it. The syntaxes are described in one module for
each form of calls: `object_calls`, `named_calls`, `tagged_calls` and `keyword_calls`.
"""

from __future__ import annotations

from collections.abc import Collection

from service.output.families.keyword_calls import (
    FUNCTION_GEMMA,
    GEMMA4,
    LFM2,
    LLAMA4_PYTHONIC,
    OLMO3,
    PYTHONIC,
)
from service.output.families.named_calls import (
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    FUNCTION_TAG,
    GLM4,
    HARMONY,
    KIMI_K2,
    MISTRAL_NAMED,
)
from service.output.families.object_calls import (
    APERTUS,
    COMMAND,
    COMMAND_R,
    GRANITE,
    GRANITE_FUNCTION,
    HERMES,
    INTERNLM2,
    LLAMA3,
    MINIMAX_M1,
    MISTRAL,
    NEMOTRON,
    PHI4_MINI,
    PLAIN_JSON,
)
from service.output.families.tagged_calls import (
    DEEPSEEK_V32,
    GLM45,
    MINIMAX_M2,
    QWEN_CODER,
    SEED_OSS,
    STEP3,
)
from service.output.families.tool_syntax import ToolSyntax

# In the order of detection: marks that also occur in another family's templates come later.
_ROWS = (
    *(HARMONY, GEMMA4, FUNCTION_GEMMA, KIMI_K2, DEEPSEEK_V32, DEEPSEEK_V3, DEEPSEEK_V31, STEP3, SEED_OSS, MINIMAX_M2),
    *(GLM45, QWEN_CODER),
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

"""The rules that the tool calls of an answer must follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.constraints.call_payload import CalledFunction
from service.generation.errors import InvalidRequest
from service.generation.formats.json_text import parse_parameters
from service.generation.prompts.conversation import Function
from service.output.families.tool_syntax import Schema, ToolSyntax

MAX_CALLS = 128  # as many as the contract's Message.tool_calls holds
_ANY_OBJECT = {"type": "object"}


@dataclass(frozen=True, slots=True)
class ToolRules:
    """What the calls of an answer must look like.

    `functions` may be called. `required` demands a call, `single` allows one at most. `field` is what a refusal of no
    single schema is reported under. `enforces` is whether the arguments match their schema where neither the choice of
    tools nor the function demands it.
    """

    functions: Sequence[Function]
    syntax: ToolSyntax
    required: bool
    single: bool
    field: str
    enforces: bool = True


def called_functions(rules: ToolRules) -> list[CalledFunction]:
    """The functions with what their arguments match.

    Raises InvalidRequest for parameters that are no schema, but that nobody demands.
    """
    return [_called(function, index, rules) for index, function in enumerate(rules.functions)]


def _called(function: Function, index: int, rules: ToolRules) -> CalledFunction:
    field = f"{function.field}.parameters"
    is_demanded = rules.required or function.strict
    parameters: Schema = _ANY_OBJECT
    try:
        if is_demanded or rules.enforces:
            parameters = parse_parameters(function.parameters, field)
    except InvalidRequest:
        if is_demanded:
            raise
    return CalledFunction(f"call_{index}", function.name, parameters, field, function.strict, lenient=not is_demanded)

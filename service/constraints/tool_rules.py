"""The rules that the tool calls of an answer must follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.constraints.called_function import CalledFunction
from service.generation.errors import InvalidRequest
from service.generation.formats.json_text import parse_parameters
from service.generation.prompts.conversation import Function
from service.output.families.tool_syntax import Schema, ToolSyntax

MAX_CALLS = 128  # the limit of the contract's Message.tool_calls
_ANY_OBJECT = {"type": "object"}


@dataclass(frozen=True, slots=True)
class ToolRules:
    """The requirements for the calls of an answer.

    `functions` may be called. `required` requires a call, `single` allows one at most. An error that isn't about one
    schema is reported for `field`. With `enforces`, arguments must match their schema even if neither the tool choice
    nor the function requires it.
    """

    functions: Sequence[Function]
    syntax: ToolSyntax
    required: bool
    single: bool
    field: str
    enforces: bool = True


def called_functions(rules: ToolRules) -> list[CalledFunction]:
    """Return the functions with the schemas of their arguments.

    Raise InvalidRequest for parameters that are not a schema, if the request requires that they are enforced.
    """
    return [_called(function, index, rules) for index, function in enumerate(rules.functions)]


def _called(function: Function, index: int, rules: ToolRules) -> CalledFunction:
    """Return a function with its schema for the grammar. Raise UnsupportedFeature if that is impossible."""
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

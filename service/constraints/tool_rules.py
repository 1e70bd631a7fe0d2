"""What the calls of an answer must look like, and what of it is in every grammar of calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from service.constraints.schema import prepare_schema
from service.generation.conversation import Function
from service.generation.errors import InvalidRequest
from service.generation.json_text import parse_parameters
from service.output.tool_syntax import ToolSyntax

MAX_CALLS = 128  # as many as the contract's Message.tool_calls holds
_ANY_OBJECT = json.dumps(prepare_schema({"type": "object"}, strict=False))


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


class ArgumentSchemas:
    """The schemas that the calls' arguments match, ready for a grammar, by the fields that gave them."""

    def __init__(self, rules: ToolRules) -> None:
        """Raises InvalidRequest for parameters that are no schema, but that nobody demands."""
        self.all: dict[str, str] = {}
        self.lenient: dict[str, str] = {}
        for function in rules.functions:
            field = field_of(function)
            if rules.required or function.strict:
                self.all[field] = _prepared(function)
                continue
            self.lenient[field] = _ANY_OBJECT
            try:
                self.all[field] = _prepared(function) if rules.enforces else _ANY_OBJECT
            except InvalidRequest:
                self.all[field] = _ANY_OBJECT


def field_of(function: Function) -> str:
    """The request's field that has a function's schema."""
    return f"{function.field}.parameters"


def _prepared(function: Function) -> str:
    schema = parse_parameters(function.parameters, field_of(function))
    return json.dumps(prepare_schema(schema, strict=function.strict))

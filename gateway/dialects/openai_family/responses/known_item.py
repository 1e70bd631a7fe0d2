"""Input items of the tools that OpenAI's API defines: calls and results of `local_shell`, `shell` and `apply_patch`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
import orjson
from sluice.v1 import response_item_pb2

from gateway.dialects.openai_family.responses.known_tool import KINDS
from gateway.dialects.seam.failure import Failure, Reason

_ACTION_FIELDS: Final = {  # those that are arguments, the required one first
    "local_shell": ("command", "env", "timeout_ms", "user", "working_directory"),
    "shell": ("commands", "timeout_ms", "max_output_length"),
}


class Action(msgspec.Struct):
    """What a call of a shell runs: `command` of local_shell_call, `commands` of shell_call. Others' are not read."""

    command: list[str] | None = None
    commands: list[str] | None = None
    env: dict[str, str] | None = None
    timeout_ms: int | None = None
    max_output_length: int | None = None
    user: str | None = None
    working_directory: str | None = None


class Operation(msgspec.Struct):
    """How a call of apply_patch changes a file."""

    type: Literal["create_file", "update_file", "delete_file"]
    path: str
    diff: str = ""


def known_call_item(
    kind: str, call_id: str, action: Action | None, operation: Operation | None, path: str
) -> response_item_pb2.InputItem:
    """Return the contract's item for a call; `kind` is the tool's type. Raise Failure for a missing field."""
    arguments: dict[str, Any]
    if kind == "apply_patch":
        arguments = msgspec.to_builtins(operation)
    else:
        given = {name: getattr(action, name) for name in _ACTION_FIELDS[kind]}
        if given[required := _ACTION_FIELDS[kind][0]] is None:
            raise Failure.of_field(f"{path}.action.{required}", "required, but missing", Reason.MISSING_FIELD)
        arguments = {name: value for name, value in given.items() if value not in (None, {})}
    call = response_item_pb2.FunctionCallItem(
        call_id=call_id, name=kind, arguments=orjson.dumps(arguments).decode(), known_tool=KINDS[kind]
    )
    return response_item_pb2.InputItem(function_call=call)


def known_output_item(kind: str, call_id: str, output: str) -> response_item_pb2.InputItem:
    """Return the contract's item for a call's result, whose `output` has the form that `known_output` reads."""
    result = response_item_pb2.FunctionCallOutput(call_id=call_id, output=output, known_tool=KINDS[kind])
    return response_item_pb2.InputItem(function_call_output=result)


def patch_output(status: str, output: str | None) -> str:
    """Return the text of a result of apply_patch."""
    fields: Mapping[str, str] = {"status": status, **({} if output is None else {"output": output})}
    return orjson.dumps(fields).decode()

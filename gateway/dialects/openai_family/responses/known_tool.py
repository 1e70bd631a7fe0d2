"""Tools that OpenAI's API defines and the client runs: `local_shell`, `shell` and `apply_patch`.

In the contract each is a function, whose arguments are held to the schema here. Its calls and their results have items
of their own for the caller. A call that is incomplete, or has no valid arguments, stays a call of a function: the end
of a command may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
import orjson
from sluice.v1 import response_item_pb2, tool_pb2

from gateway.dialects.seam.failure import Failure, Reason

_CONTAINER: Final = (
    'is not supported: containers run on OpenAI\'s server; use {"type": "local"}, and run the commands on the client'
)
_PATCH_DESCRIPTION: Final = (
    "Create, update or delete one file of the user. The diff of a new file has all its lines, each after '+'. The diff "
    "of an update has sections: a line '@@', which may name the function or class of the section, then lines of the "
    "file, each after ' ' if it stays, '-' if it is removed, and '+' if it is added. For a deletion the diff is empty."
)
_TEXTS: Final = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_COUNT: Final = {"type": "integer", "minimum": 1}
_FUNCTIONS: Final[Mapping[str, tuple[str, dict[str, Any], list[str]]]] = {  # description, properties, required ones
    "local_shell": (
        "Run one command on the user's machine, without a shell, and return its output.",
        {"command": _TEXTS, "working_directory": {"type": "string"}, "timeout_ms": _COUNT},
        ["command"],
    ),
    "shell": (
        "Run commands in a shell on the user's machine, and return what each prints and how it ends.",
        {"commands": _TEXTS, "timeout_ms": _COUNT, "max_output_length": _COUNT},
        ["commands"],
    ),
    "apply_patch": (
        _PATCH_DESCRIPTION,
        {
            "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            "path": {"type": "string"},
            "diff": {"type": "string"},
        },
        ["type", "path", "diff"],
    ),
}
KINDS: Final = {
    "local_shell": tool_pb2.KNOWN_TOOL_LOCAL_SHELL,
    "shell": tool_pb2.KNOWN_TOOL_SHELL,
    "apply_patch": tool_pb2.KNOWN_TOOL_APPLY_PATCH,
}
_NAMES: Final = {kind: name for name, kind in KINDS.items()}
_ID_PREFIXES: Final = ("lsh_", "sh_", "apc_")


class LocalShellTool(msgspec.Struct, tag_field="type", tag="local_shell", forbid_unknown_fields=True):
    """Single commands that the client runs without a shell."""


class Skill(msgspec.Struct):
    """A folder with instructions that commands can read."""

    name: str = ""
    description: str = ""
    path: str = ""


class ShellEnvironment(msgspec.Struct):
    """Where commands run: `local` is the client."""

    type: Literal["local", "container_auto", "container_reference"]
    skills: list[Skill] | None = None


class ShellTool(msgspec.Struct, tag_field="type", tag="shell", forbid_unknown_fields=True):
    """Commands that the client runs in a shell. `allowed_callers` has no effect."""

    environment: ShellEnvironment | None = None
    allowed_callers: list[Literal["direct", "programmatic"]] | None = None


class ApplyPatchTool(msgspec.Struct, tag_field="type", tag="apply_patch", forbid_unknown_fields=True):
    """Changes of files that the client makes. `allowed_callers` has no effect."""

    allowed_callers: list[Literal["direct", "programmatic"]] | None = None


KnownTool: TypeAlias = LocalShellTool | ShellTool | ApplyPatchTool


class _LocalShellArguments(msgspec.Struct):
    command: list[str]
    env: dict[str, str] = {}
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class _ShellArguments(msgspec.Struct):
    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


class _PatchArguments(msgspec.Struct):
    type: Literal["create_file", "update_file", "delete_file"]
    path: str
    diff: str = ""


class _PatchResult(msgspec.Struct, omit_defaults=True):
    status: Literal["completed", "failed"]
    output: str | None = None


def known_name(tool: KnownTool) -> str:
    """Return the type of a tool, which is the name of its function."""
    return str(type(tool).__struct_config__.tag)


def to_known_tool(tool: KnownTool, path: str) -> tool_pb2.Tool:
    """Return the contract's tool. Raise Failure naming the field below `path`."""
    name = known_name(tool)
    description, properties, required = _FUNCTIONS[name]
    environment = tool.environment if isinstance(tool, ShellTool) else None
    if environment is not None:
        if environment.type != "local":
            text = f"'{environment.type}' {_CONTAINER}"
            raise Failure.of_field(f"{path}.environment.type", text, Reason.UNSUPPORTED_FIELD)
        skills = [f"- {each.name}: {each.description} ({each.path})" for each in environment.skills or ()]
        description = "\n".join([description, "Instructions for some tasks:", *skills]) if skills else description
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    function = tool_pb2.FunctionDefinition(
        name=name,
        description=description,
        parameters=orjson.dumps(parameters).decode(),
        strict=True,  # a client runs what the arguments say
        known_tool=KINDS[name],
    )
    return tool_pb2.Tool(function=function)


def known_tool_answer(tool: KnownTool) -> dict[str, Any]:
    """Return a tool for the answer."""
    answer: dict[str, Any] = {"type": known_name(tool)}
    if isinstance(tool, ShellTool):
        environment = tool.environment or ShellEnvironment("local")
        skills = {} if environment.skills is None else {"skills": msgspec.to_builtins(environment.skills)}
        answer["environment"] = {"type": environment.type, **skills}
    return answer


def is_known_id(item_id: str) -> bool:
    """Return whether an item is a call of one of these tools."""
    return item_id.startswith(_ID_PREFIXES)


def known_call(call: response_item_pb2.FunctionCallItem) -> dict[str, Any] | None:
    """Return the caller's fields of a call; None for other functions, and without the required arguments."""
    name = _NAMES.get(call.known_tool, "")
    try:
        match name:
            case "local_shell":
                given = _present(msgspec.json.decode(call.arguments, type=_LocalShellArguments))
                action: dict[str, Any] = {"action": {"type": "exec", **given}}
            case "shell":
                shell = msgspec.json.decode(call.arguments, type=_ShellArguments)
                action = {"action": msgspec.to_builtins(shell), "environment": {"type": "local"}}
            case "apply_patch":
                patch = msgspec.to_builtins(msgspec.json.decode(call.arguments, type=_PatchArguments))
                if patch["type"] == "delete_file":
                    del patch["diff"]
                action = {"operation": patch}
            case _:
                return None
    except msgspec.MsgspecError:
        return None
    return {"type": f"{name}_call", "call_id": call.call_id, **action}


def known_output(output: response_item_pb2.FunctionCallOutput) -> dict[str, Any] | None:
    """Return the caller's fields of a call's result; None for other functions, and for a result of another form.

    Clients of gRPC may store any text as a result.
    """
    name = _NAMES.get(output.known_tool, "")
    fields = {"type": f"{name}_call_output", "call_id": output.call_id}
    try:
        match name:
            case "local_shell":
                return {**fields, "output": output.output}
            case "shell":
                return {**fields, "output": msgspec.json.decode(output.output, type=list[dict[str, Any]])}
            case "apply_patch":
                return {**fields, **msgspec.to_builtins(msgspec.json.decode(output.output, type=_PatchResult))}
            case _:
                return None
    except msgspec.MsgspecError:
        return None


def _present(arguments: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that are not null."""
    return {name: value for name, value in msgspec.to_builtins(arguments).items() if value is not None}

"""Messages, tools and output constraints of the contract as values, each with its path in the request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sluice.v1 import chat_pb2, content_pb2, prompt_pb2, sampling_pb2, tool_pb2

from service.generation.formats.output_format import (
    JsonObject,
    JsonSchema,
    OutputFormat,
    Regex,
    TextChoice,
    TextGrammar,
)
from service.generation.prompts.conversation import (
    FilePart,
    Function,
    FunctionCall,
    ImagePart,
    Message,
    Part,
    RawText,
    RawTokens,
    ReasoningEffort,
    Role,
    TextPart,
    ToolChoice,
    ToolMode,
)

ROLES: Final = {
    content_pb2.ROLE_SYSTEM: Role.SYSTEM,
    content_pb2.ROLE_USER: Role.USER,
    content_pb2.ROLE_ASSISTANT: Role.ASSISTANT,
    content_pb2.ROLE_TOOL: Role.TOOL,
}
_MODES: Final = {
    tool_pb2.TOOL_CHOICE_MODE_UNSPECIFIED: ToolMode.AUTO,
    tool_pb2.TOOL_CHOICE_MODE_NONE: ToolMode.NONE,
    tool_pb2.TOOL_CHOICE_MODE_AUTO: ToolMode.AUTO,
    tool_pb2.TOOL_CHOICE_MODE_REQUIRED: ToolMode.REQUIRED,
}
_EFFORTS: Final = {
    chat_pb2.REASONING_EFFORT_NONE: ReasoningEffort.NONE,
    chat_pb2.REASONING_EFFORT_LOW: ReasoningEffort.LOW,
    chat_pb2.REASONING_EFFORT_MEDIUM: ReasoningEffort.MEDIUM,
    chat_pb2.REASONING_EFFORT_HIGH: ReasoningEffort.HIGH,
}
_EFFORT_VALUES: Final = {effort: value for value, effort in _EFFORTS.items()}


def to_messages(messages: Sequence[content_pb2.Message]) -> tuple[Message, ...]:
    """Return the messages of a chat."""
    return tuple(_to_message(message, f"messages[{index}]") for index, message in enumerate(messages))


def to_parts(parts: Iterable[content_pb2.ContentPart], field: str) -> tuple[Part, ...]:
    """Return the parts of a message's content; `field` is its path."""
    return tuple(to_part(part, f"{field}[{index}]") for index, part in enumerate(parts))


def to_part(part: content_pb2.ContentPart, field: str) -> Part:
    """Return a content part; `field` is its path."""
    match part.WhichOneof("part"):
        case "text":
            return TextPart(part.text)
        case "image_url":
            return ImagePart(part.image_url.url, f"{field}.image_url")
        case "image":
            return ImagePart("", f"{field}.image.data", part.image.data, part.image.media_type)
        case _ if part.file.HasField("url"):
            return FilePart(f"{field}.file", url=part.file.url)
        case _:
            return FilePart(f"{field}.file", file_id=part.file.file_id)


def to_functions(tools: Sequence[tool_pb2.Tool]) -> tuple[Function, ...]:
    """Return the functions of a request."""
    return tuple(
        Function(
            name=tool.function.name,
            description=tool.function.description,
            parameters=tool.function.parameters,
            strict=tool.function.strict,
            field=f"tools[{index}].function",
        )
        for index, tool in enumerate(tools)
    )


def to_tool_choice(choice: tool_pb2.ToolChoice) -> ToolChoice:
    """Return the tool choice; by default the model decides."""
    if choice.WhichOneof("choice") == "function_name":
        return ToolChoice(ToolMode.REQUIRED, choice.function_name)
    return ToolChoice(_MODES[choice.mode])


def to_reasoning_effort(effort: chat_pb2.ReasoningEffort) -> ReasoningEffort | None:
    """Return the reasoning effort; None for the default of the model's chat template."""
    return _EFFORTS.get(effort)


def reasoning_effort_value(effort: ReasoningEffort | None) -> chat_pb2.ReasoningEffort:
    """Return the contract's value of a reasoning effort; None is unspecified."""
    return chat_pb2.REASONING_EFFORT_UNSPECIFIED if effort is None else _EFFORT_VALUES[effort]


def to_schema(constraint: sampling_pb2.OutputConstraint) -> JsonSchema | None:
    """Return the JSON Schema of the output constraint, if it has one that the prompt may describe."""
    named = constraint.json_schema
    if not constraint.HasField("json_schema") or (named.HasField("in_prompt") and not named.in_prompt):
        return None
    output_format = to_output_format(constraint)
    return output_format if isinstance(output_format, JsonSchema) else None


def to_output_format(constraint: sampling_pb2.OutputConstraint) -> OutputFormat:
    """Return the output constraint."""
    field = f"output_constraint.{constraint.WhichOneof('constraint')}"
    match constraint.WhichOneof("constraint"):
        case "json_object":
            return JsonObject(field)
        case "json_schema":
            named = constraint.json_schema
            return JsonSchema(named.schema, named.strict, f"{field}.schema", named.name, named.description)
        case "regex":
            return Regex(constraint.regex, field)
        case "grammar":
            return TextGrammar(constraint.grammar, field)
        case _:
            return TextChoice(tuple(constraint.choice.texts), f"{field}.texts")


def to_raw_prompt(prompt: prompt_pb2.Prompt, field: str) -> RawText | RawTokens:
    """Return a prompt without chat template."""
    if prompt.HasField("token_ids"):
        return RawTokens(prompt.token_ids.ids[:], field)
    return RawText(prompt.text, field)


def _to_message(message: content_pb2.Message, field: str) -> Message:
    """Return a message as a value; `field` is its path in the request."""
    return Message(
        role=ROLES[message.role],
        content=to_parts(message.content, f"{field}.content"),
        tool_calls=tuple(
            FunctionCall(call.id, call.function.name, call.function.arguments) for call in message.tool_calls
        ),
        tool_call_id=message.tool_call_id,
        name=message.name if message.HasField("name") else None,
        reasoning=message.reasoning if message.HasField("reasoning") else None,
        field=field,
        tool_call_field=f"{field}.tool_call_id",
    )

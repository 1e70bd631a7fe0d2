"""The messages and tools of a conversation in the form that chat templates take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from service.generation.errors import InvalidRequest, UnsupportedModality
from service.generation.formats.constraint import ReasoningMarkers
from service.generation.formats.json_text import parse_json, parse_parameters
from service.generation.prompts.conversation import Function, FunctionCall, ImagePart, Message, Part, Role, TextPart
from service.prompts.templates.call_form import CallForm

_VARIABLES = "chat_template_kwargs"
_FIELDS = ("messages", "tools", "add_generation_prompt", "continue_final_message")
_OWN = ("chat_template", "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
        "raise_exception", "strftime_now", "range", "dict", "lipsum", "cycler", "joiner", "namespace")  # fmt: skip
_RESERVED = {
    **dict.fromkeys(_FIELDS, "is a field of the request"),
    **dict.fromkeys(_OWN, "is set by the template's environment"),
}


def template_messages(
    messages: Sequence[Message],
    *,
    default_system_prompt: str | None,
    markers: ReasoningMarkers | None,
    form: CallForm,
    takes_images: bool = False,
) -> list[dict[str, Any]]:
    """Return the turns, with the default system prompt unless the conversation has a system message.

    `form` is the template's form of earlier calls. Raise UnsupportedModality for a part that the model can't take, and
    InvalidRequest for a tool message that answers no earlier call.
    """
    result: list[dict[str, Any]] = []
    if default_system_prompt and messages[0].role is not Role.SYSTEM:
        result.append({"role": "system", "content": default_system_prompt})
    called: dict[str, str] = {}  # call id → function name
    for message in messages:
        turn: dict[str, Any] = {"role": message.role.value, "content": _content(message, takes_images=takes_images)}
        if message.name is not None:
            turn["name"] = message.name
        if message.role is Role.TOOL:
            if message.tool_call_id not in called:
                raise InvalidRequest(message.tool_call_field, "no earlier message has a call of this id")
            turn["tool_call_id"] = message.tool_call_id
            turn.setdefault("name", called[message.tool_call_id])
        if message.role is Role.ASSISTANT:
            turn |= _reasoning(message, turn["content"], markers)
            if markers is not None and markers.always and message.tool_calls and not turn["content"]:
                turn["thinking"] = turn.get("reasoning", "")  # templates for channels reject it together with content
        if message.tool_calls:
            called |= {call.id: call.name for call in message.tool_calls}
            turn["tool_calls"] = [
                _tool_call(call, parse_arguments=form.parses_arguments) for call in message.tool_calls
            ]
            if form.empty_is_none and not turn["content"] and message is not messages[-1]:  # the last may be continued
                turn["content"] = None
        result.append(turn)
    return result


def template_tools(functions: Iterable[Function]) -> list[dict[str, Any]]:
    """Return the functions in the templates' form. Raise InvalidRequest for parameters that are not a schema."""
    return [
        {
            "type": "function",
            "function": {
                "name": function.name,
                "description": function.description,
                "parameters": parse_parameters(function.parameters, f"{function.field}.parameters"),
            },
        }
        for function in functions
    ]


def template_variables(text: str) -> dict[str, Any]:
    """Return a request's own variables, which are a JSON object; none for an empty text.

    Raise InvalidRequest for anything else, and for a reserved name.
    """
    if not text:
        return {}
    variables = parse_json(text, _VARIABLES)
    if not isinstance(variables, dict):
        raise InvalidRequest(_VARIABLES, "must be a JSON object")
    for name in variables:
        if name in _RESERVED:
            raise InvalidRequest(_VARIABLES, f"must not have {name}, which {_RESERVED[name]}")
    return variables


def _content(message: Message, *, takes_images: bool) -> str | list[dict[str, str]]:
    """Return a message's text; if it has images, its texts and images as a list of parts."""
    if not (takes_images and message.images):
        return _text(
            message.content, "the model takes text and images" if takes_images else "the model takes text only"
        )
    if message.role is not Role.USER:
        raise UnsupportedModality(message.images[0].field, "images are allowed in messages of the role user only")
    parts: list[dict[str, str]] = []
    for part in message.content:
        if isinstance(part, ImagePart):
            parts.append({"type": "image"})
        else:
            parts.append({"type": "text", "text": _text([part], "the model takes text and images")})
    return parts


def _text(parts: Iterable[Part], taken: str) -> str:
    """Return the text of parts. Raise UnsupportedModality if any is no text; `taken` describes what is accepted."""
    texts = []
    for part in parts:
        if not isinstance(part, TextPart):
            raise UnsupportedModality(part.field, taken)
        texts.append(part.text)
    return "".join(texts)


def _reasoning(message: Message, content: str, markers: ReasoningMarkers | None) -> dict[str, str]:
    """Return an assistant's reasoning, under both names that templates use, and its content.

    A client may have sent both back in one text.
    """
    if message.reasoning is not None:
        return {"reasoning_content": message.reasoning, "reasoning": message.reasoning}
    if markers is None or markers.close not in content:
        return {}
    reasoning, _, answer = content.partition(markers.close)
    reasoning = reasoning.partition(markers.open)[2] or reasoning
    reasoning = reasoning.strip()
    return {"reasoning_content": reasoning, "reasoning": reasoning, "content": answer.lstrip("\r\n")}


def _tool_call(call: FunctionCall, *, parse_arguments: bool) -> dict[str, Any]:
    """Return a call for a template, with the arguments as values or as text."""
    arguments: Any = call.arguments
    if parse_arguments:
        try:
            value = parse_json(call.arguments, "arguments")
            arguments = value if isinstance(value, dict) else arguments
        except InvalidRequest:
            pass  # the model may have written it like this; the template shows it unchanged
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}

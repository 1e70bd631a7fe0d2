"""Responses: convert the request's items to a conversation.

Instructions and leading system messages become one system message, separated by empty lines; a later system message
becomes a user's turn. Consecutive items of the assistant become one message, as one answer generated them: reasoning,
text, calls. A message after a message, or reasoning after anything but reasoning, begins another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from sluice.v1 import content_pb2, response_item_pb2, response_pb2

from service.contract.parts.answer import serving_values
from service.contract.parts.conversation import (
    ROLES,
    to_functions,
    to_output_format,
    to_parts,
    to_reasoning_effort,
    to_schema,
    to_tool_choice,
)
from service.contract.parts.parameters import given_sampling, to_logprobs, to_sampling
from service.contract.parts.resume import to_resume
from service.generation.prompts.conversation import Conversation, FunctionCall, Message, Part, Role, TextPart
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.parameters import StopParams

_BETWEEN_INSTRUCTIONS = "\n\n"
_BETWEEN_REASONING = "\n"


def to_answer_request(
    request: response_pb2.CreateResponseRequest, history: Sequence[response_item_pb2.InputItem] = ()
) -> AnswerRequest:
    """Convert a validated request. `history` are the items of the responses that it continues."""
    has_format = request.HasField("output_constraint")
    return AnswerRequest(
        model=request.model,
        prompts=(to_conversation(request, history),),
        prompts_field="input",
        max_tokens_field="max_output_tokens",
        sampling=to_sampling(request.sampling),
        given=given_sampling(request.sampling),
        stopping=StopParams(max_tokens=request.max_output_tokens if request.HasField("max_output_tokens") else None),
        logprobs=to_logprobs(request),
        output_format=to_output_format(request.output_constraint) if has_format else None,
        answer_id=request.response_id,
        resume=to_resume(request),
        **serving_values(request.serving),
    )


def to_conversation(
    request: response_pb2.CreateResponseRequest, history: Sequence[response_item_pb2.InputItem] = ()
) -> Conversation:
    """Return the conversation with its tools."""
    return Conversation(
        messages=_to_messages(request, history),
        tools=to_functions(request.tools),
        tool_choice=to_tool_choice(request.tool_choice),
        parallel_tool_calls=not request.HasField("parallel_tool_calls") or request.parallel_tool_calls,
        reasoning_effort=to_reasoning_effort(request.reasoning_effort),
        default_effort=to_reasoning_effort(request.default_reasoning_effort),
        field="input",
        template_variables=request.chat_template_kwargs,
        schema=to_schema(request.output_constraint),
    )


@dataclass(slots=True)
class _Turn:
    """A message under construction. `field` is the path of its first item, `last` the kind of its last one."""

    role: Role
    field: str
    last: str = "message"
    content: list[Part] = dataclass_field(default_factory=list)
    tool_calls: list[FunctionCall] = dataclass_field(default_factory=list)
    tool_call_id: str = ""
    reasoning: str | None = None

    def to_message(self) -> Message:
        # Reasoning that was cut off before the answer has neither.
        content = self.content if self.content or self.tool_calls else [TextPart("")]
        return Message(
            role=self.role,
            content=tuple(content),
            tool_calls=tuple(self.tool_calls),
            tool_call_id=self.tool_call_id,
            reasoning=self.reasoning,
            field=self.field,
            tool_call_field=f"{self.field}.function_call_output.call_id",
        )


def _to_messages(
    request: response_pb2.CreateResponseRequest, history: Sequence[response_item_pb2.InputItem]
) -> Sequence[Message]:
    """Return the conversation; adjacent items of the assistant are one message."""
    turns: list[_Turn] = []
    if request.instructions:
        _add_system(turns, [TextPart(request.instructions)], "instructions")
    for item in history:
        _add(turns, item, "conversation" if request.conversation else "previous_response_id")
    for index, item in enumerate(request.input):
        _add(turns, item, f"input[{index}]")
    return tuple(turn.to_message() for turn in turns)


def _add(turns: list[_Turn], item: response_item_pb2.InputItem, field: str) -> None:
    """Add an input item to the conversation's turns."""
    match item.WhichOneof("item"):
        case "message":
            _add_message(turns, item.message, f"{field}.message")
        case "function_call":
            call = item.function_call
            call_value = FunctionCall(call.call_id, call.name, call.arguments)
            _assistant(turns, field, "function_call").tool_calls.append(call_value)
        case "function_call_output":
            output = item.function_call_output
            turn = _Turn(Role.TOOL, field, "function_call_output", [TextPart(output.output)])
            turn.tool_call_id = output.call_id
            turns.append(turn)
        case _ if item.reasoning.text:
            turn = _assistant(turns, field, "reasoning")
            before = "" if turn.reasoning is None else turn.reasoning + _BETWEEN_REASONING
            turn.reasoning = before + item.reasoning.text


def _add_message(turns: list[_Turn], given: response_item_pb2.InputMessage, field: str) -> None:
    """Add a message to the conversation's turns."""
    parts = to_parts(given.content, f"{field}.content")
    if given.role == content_pb2.ROLE_SYSTEM:
        _add_system(turns, parts, field)
        return
    if given.role == content_pb2.ROLE_ASSISTANT:
        turn = _assistant(turns, field, "message")
    else:
        turn = _Turn(ROLES[given.role], field)
        turns.append(turn)
    turn.content.extend(parts)


def _add_system(turns: list[_Turn], parts: Iterable[Part], field: str) -> None:
    """Add instructions to the system message, or a user's turn if they are not at the beginning."""
    if not turns:
        turns.append(_Turn(Role.SYSTEM, field))
    elif turns[-1].role is Role.SYSTEM:
        turns[-1].content.append(TextPart(_BETWEEN_INSTRUCTIONS))
    else:
        turns.append(_Turn(Role.USER, field))  # templates have no other position for it
    turns[-1].content.extend(parts)


def _assistant(turns: list[_Turn], field: str, kind: str) -> _Turn:
    """Return the assistant's turn to which an item of `kind` belongs."""
    last = turns[-1] if turns else None
    begins = (kind == "message" and last is not None and last.last == "message") or (
        kind == "reasoning" and last is not None and last.last != "reasoning"
    )
    if last is None or last.role is not Role.ASSISTANT or begins:
        last = _Turn(Role.ASSISTANT, field)
        turns.append(last)
    last.last = kind
    return last

"""A response's items as a chat's messages.

Owns the translation of a CreateResponseRequest into the ChatRequest that serves it, and the way back for the names of
fields at fault. Pure; any thread may call it. Knows no template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from sluice.v1 import chat_pb2, content_pb2, response_item_pb2, response_pb2

from service.generation.errors import InvalidRequest

_MESSAGE = re.compile(r"^messages\[(\d+)\](?:\.content\[(\d+)\])?(.*)$")
_FIELDS = {"messages": "input", "stopping.max_tokens": "max_output_tokens"}
_BETWEEN_INSTRUCTIONS = "\n\n"
_BETWEEN_THOUGHTS = "\n"


@dataclass(slots=True)
class _Turn:
    """A message, and where it comes from: `path` is its first item's, `parts` has its content's, part by part.

    `last` is the kind of the last item in it, by the contract's name.
    """

    message: content_pb2.Message
    path: str
    last: str
    parts: list[str] = field(default_factory=list)


class ResponseChat:
    """The chat that answers a request.

    Instructions and the system messages that stand first are one system message, an empty line between each. Items of
    the assistant that follow each other are one message, as one answer made them: thoughts, text, calls. A message
    that follows a message, or thoughts that follow anything but thoughts, begin another.
    """

    def __init__(self, request: response_pb2.CreateResponseRequest) -> None:
        """Raises InvalidRequest for a system message that does not stand first."""
        self._turns: list[_Turn] = []
        if request.instructions:
            self._add_system([content_pb2.ContentPart(text=request.instructions)], "instructions", ["instructions"])
        for index, item in enumerate(request.input):
            self._add(item, f"input[{index}]")
        for turn in self._turns:
            if not turn.message.content and not turn.message.tool_calls:
                turn.message.content.add(text="")  # thoughts that were cut off before an answer
        self.request = self._to_chat(request)

    def field(self, path: str) -> str:
        """The request's own name of what the chat calls `path`: `messages[2].tool_call_id` is of some `input[…]`."""
        match = _MESSAGE.match(path)
        if match is None:
            return _FIELDS.get(path, path)
        turn = self._turns[int(match[1])]
        if match[2] is not None:
            return turn.parts[int(match[2])] + match[3]
        return f"{turn.path}.function_call_output.call_id" if match[3] == ".tool_call_id" else turn.path

    def _to_chat(self, request: response_pb2.CreateResponseRequest) -> chat_pb2.ChatRequest:
        chat = chat_pb2.ChatRequest(
            model=request.model,
            messages=[turn.message for turn in self._turns],
            tools=request.tools,
            parallel_tool_calls=request.parallel_tool_calls if request.HasField("parallel_tool_calls") else None,
            reasoning_effort=request.reasoning_effort,
        )
        for name in ("sampling", "logprobs", "output_constraint", "tool_choice", "serving"):
            if request.HasField(name):
                getattr(chat, name).CopyFrom(getattr(request, name))
        if request.HasField("max_output_tokens"):
            chat.stopping.max_tokens = request.max_output_tokens
        return chat

    def _add(self, item: response_item_pb2.InputItem, path: str) -> None:
        match item.WhichOneof("item"):
            case "message":
                self._add_message(item.message, f"{path}.message")
            case "function_call":
                call = item.function_call
                made = self._assistant(path, "function_call").message.tool_calls.add(id=call.call_id)
                made.function.name, made.function.arguments = call.name, call.arguments
            case "function_call_output":
                message = content_pb2.Message(
                    role=content_pb2.ROLE_TOOL, tool_call_id=item.function_call_output.call_id
                )
                message.content.add(text=item.function_call_output.output)
                output = f"{path}.function_call_output.output"
                self._turns.append(_Turn(message, path, "function_call_output", [output]))
            case _ if item.reasoning.text:
                message = self._assistant(path, "reasoning").message
                before = message.reasoning + _BETWEEN_THOUGHTS if message.HasField("reasoning") else ""
                message.reasoning = before + item.reasoning.text

    def _add_message(self, said: response_item_pb2.InputMessage, path: str) -> None:
        parts = [f"{path}.content[{index}]" for index in range(len(said.content))]
        if said.role == content_pb2.ROLE_SYSTEM:
            self._add_system(said.content, path, parts)
            return
        if said.role == content_pb2.ROLE_ASSISTANT:
            turn = self._assistant(path, "message")
        else:
            turn = _Turn(content_pb2.Message(role=said.role), path, "message")
            self._turns.append(turn)
        turn.message.content.extend(said.content)
        turn.parts += parts

    def _add_system(self, content: Iterable[content_pb2.ContentPart], path: str, parts: list[str]) -> None:
        if not self._turns:
            self._turns.append(_Turn(content_pb2.Message(role=content_pb2.ROLE_SYSTEM), path, "message"))
        elif self._turns[-1].message.role == content_pb2.ROLE_SYSTEM:
            self._turns[-1].message.content.add(text=_BETWEEN_INSTRUCTIONS)
            self._turns[-1].parts.append(path)
        else:
            raise InvalidRequest(f"{path}.role", "a message of the role system must stand before all other items")
        self._turns[-1].message.content.extend(content)
        self._turns[-1].parts += parts

    def _assistant(self, path: str, kind: str) -> _Turn:
        """The assistant's turn that an item of `kind` belongs to."""
        last = self._turns[-1] if self._turns else None
        begins = (kind == "message" and last is not None and last.last == "message") or (
            kind == "reasoning" and last is not None and last.last != "reasoning"
        )
        if last is None or last.message.role != content_pb2.ROLE_ASSISTANT or begins:
            last = _Turn(content_pb2.Message(role=content_pb2.ROLE_ASSISTANT), path, kind)
            self._turns.append(last)
        last.last = kind
        return last

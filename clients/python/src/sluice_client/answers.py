"""Whole answers, with what most callers want of them at hand; `message` is the contract's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice_client.v1 import chat_pb2, completion_pb2, content_pb2, response_item_pb2, tool_pb2, usage_pb2


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A chat's answer. With `n`, the properties are those of the first choice."""

    message: chat_pb2.ChatResponse

    @property
    def turn(self) -> content_pb2.Message:
        """The assistant's message, as the conversation goes on with it."""
        return self.message.choices[0].message

    @property
    def text(self) -> str:
        """What the model said."""
        return "".join(part.text for part in self.turn.content)

    @property
    def reasoning(self) -> str:
        """What it thought before."""
        return self.turn.reasoning

    @property
    def tool_calls(self) -> Sequence[tool_pb2.ToolCall]:
        """What it asks to be called; `function.arguments` is JSON text."""
        return self.turn.tool_calls

    @property
    def finish_reason(self) -> str:
        """Why it ended: STOP, LENGTH, TOOL_CALLS or CONTENT_FILTER."""
        return finish_reason(self.message.choices[0].finish_reason)

    @property
    def usage(self) -> usage_pb2.Usage:
        """What it cost."""
        return self.message.usage


@dataclass(frozen=True, slots=True)
class Completion:
    """Continuations of prompts, in the order of `message.choices`."""

    message: completion_pb2.CompleteResponse

    @property
    def text(self) -> str:
        """The first continuation."""
        return self.message.choices[0].text

    @property
    def texts(self) -> list[str]:
        """All of them."""
        return [choice.text for choice in self.message.choices]

    @property
    def finish_reason(self) -> str:
        """Why the first ended: STOP or LENGTH."""
        return finish_reason(self.message.choices[0].finish_reason)

    @property
    def usage(self) -> usage_pb2.Usage:
        """What they cost."""
        return self.message.usage


@dataclass(frozen=True, slots=True)
class ResponseAnswer:
    """A response, made of items."""

    message: response_item_pb2.Response

    @property
    def text(self) -> str:
        """The text of all its messages."""
        return "".join(part.text for item in self.message.output for part in item.message.content)

    @property
    def tool_calls(self) -> list[response_item_pb2.FunctionCallItem]:
        """What it asks to be called."""
        return [item.function_call for item in self.message.output if item.HasField("function_call")]

    @property
    def usage(self) -> usage_pb2.Usage:
        """What it cost."""
        return self.message.usage


def finish_reason(reason: chat_pb2.FinishReason.ValueType) -> str:
    """Its name without the enum's."""
    return chat_pb2.FinishReason.Name(reason).removeprefix("FINISH_REASON_")

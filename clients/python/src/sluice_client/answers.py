"""Whole answers, with properties for the fields that most callers read; `message` is the contract's message."""

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
        """The assistant's message, to be appended to the conversation."""
        return self.message.choices[0].message

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(part.text for part in self.turn.content)

    @property
    def reasoning(self) -> str:
        """The reasoning before the answer."""
        return self.turn.reasoning

    @property
    def tool_calls(self) -> Sequence[tool_pb2.ToolCall]:
        """The tool calls that the model requests; `function.arguments` is JSON text."""
        return self.turn.tool_calls

    @property
    def finish_reason(self) -> str:
        """The reason why the answer ended: STOP, LENGTH, TOOL_CALLS or CONTENT_FILTER."""
        return finish_reason(self.message.choices[0].finish_reason)

    @property
    def usage(self) -> usage_pb2.Usage:
        """The number of tokens, by kind."""
        return self.message.usage


@dataclass(frozen=True, slots=True)
class Completion:
    """Continuations of prompts, in the order of `message.choices`."""

    message: completion_pb2.CompleteResponse

    @property
    def text(self) -> str:
        """The text of the first continuation."""
        return self.message.choices[0].text

    @property
    def texts(self) -> list[str]:
        """The texts of all continuations."""
        return [choice.text for choice in self.message.choices]

    @property
    def finish_reason(self) -> str:
        """The reason why the first continuation ended: STOP or LENGTH."""
        return finish_reason(self.message.choices[0].finish_reason)

    @property
    def usage(self) -> usage_pb2.Usage:
        """The number of tokens of all continuations, by kind."""
        return self.message.usage


@dataclass(frozen=True, slots=True)
class ResponseAnswer:
    """A response: a list of items."""

    message: response_item_pb2.Response

    @property
    def text(self) -> str:
        """The text of all messages in the response."""
        return "".join(part.text for item in self.message.output for part in item.message.content)

    @property
    def tool_calls(self) -> list[response_item_pb2.FunctionCallItem]:
        """The function calls that the model requests."""
        return [item.function_call for item in self.message.output if item.HasField("function_call")]

    @property
    def usage(self) -> usage_pb2.Usage:
        """The number of tokens, by kind."""
        return self.message.usage


def finish_reason(reason: chat_pb2.FinishReason.ValueType) -> str:
    """Return the name of a finish reason without the enum's prefix."""
    return chat_pb2.FinishReason.Name(reason).removeprefix("FINISH_REASON_")

"""The body of a chat request in OpenAI's family. A dialect adds its own fields by inheritance.

Null is equivalent to an absent field everywhere.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from sluice.v1 import chat_pb2, tool_pb2

from gateway.dialects.openai_family.chat.conversation import Conversation
from gateway.dialects.openai_family.chat.message import ChatMessage
from gateway.dialects.openai_family.parameters.response_format import ResponseFormat, to_constraint
from gateway.dialects.openai_family.parameters.sampling import CALLER_NAMES, SamplingBody
from gateway.dialects.openai_family.parameters.tool import OfferedTool, ToolChoice, to_tool, to_tool_choice
from gateway.dialects.seam.caller_name import dotted, renamed
from gateway.dialects.seam.contract_limit import check_length, put
from gateway.dialects.seam.failure import Failure

EFFORTS: Final = {
    "none": chat_pb2.REASONING_EFFORT_NONE,
    "minimal": chat_pb2.REASONING_EFFORT_LOW,
    "low": chat_pb2.REASONING_EFFORT_LOW,
    "medium": chat_pb2.REASONING_EFFORT_MEDIUM,
    "high": chat_pb2.REASONING_EFFORT_HIGH,
    "xhigh": chat_pb2.REASONING_EFFORT_HIGH,
    "max": chat_pb2.REASONING_EFFORT_HIGH,
}
EFFORT_NAMES: Final = {
    chat_pb2.REASONING_EFFORT_NONE: "none",
    chat_pb2.REASONING_EFFORT_LOW: "low",
    chat_pb2.REASONING_EFFORT_MEDIUM: "medium",
    chat_pb2.REASONING_EFFORT_HIGH: "high",
}
_CALLER_NAMES: Final = {  # the contract's path → the caller's, for whole paths and for prefixes
    **CALLER_NAMES,
    "logprobs.top_logprobs": "top_logprobs",
    "logprobs.token_ids": "logprob_token_ids",
    "output_constraint": "response_format",
    "output_constraint.json_object": "response_format",
    "tool_choice.mode": "tool_choice",
    "tool_choice.function_name": "tool_choice.function.name",
}
_CONTENT: Final = re.compile(r"^messages\.(\d+)\.content\.0(?:\.text)?$")
_CALL: Final = re.compile(r"^messages\.(\d+)\.tool_calls\.(\d+)\.function\.(name|arguments)$")
_REASONING: Final = re.compile(r"^(messages\.\d+)\.reasoning$")


class ChatBody(SamplingBody, kw_only=True):
    """The fields that all dialects share. Ranges are the contract's.

    `max_completion_tokens` is OpenAI's newer name of `max_tokens`.
    """

    messages: list[ChatMessage]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: ResponseFormat | None = None
    tools: list[OfferedTool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None

    def to_request(self, model: str) -> chat_pb2.ChatRequest:
        """Return the contract's request. Raise Failure for a value outside the contract's types."""
        check_length(chat_pb2.ChatRequest, "messages", self.messages, "messages")
        check_length(chat_pb2.ChatRequest, "tools", self.tools or (), "tools")
        request = chat_pb2.ChatRequest(
            model=model,
            messages=Conversation(self.messages).messages,
            tools=self.to_tools(),
        )
        self.set_sampling(request)
        if self.max_tokens not in {None, self.max_completion_tokens} and self.max_completion_tokens is not None:
            raise Failure.of_field("max_tokens", "conflicts with max_completion_tokens; give only one of them")
        put(request.stopping, "max_tokens", self.max_completion_tokens, "max_completion_tokens")
        if self.top_logprobs is not None and not self.logprobs:
            raise Failure.of_field("top_logprobs", "only allowed with logprobs: true")
        if self.logprobs:
            request.logprobs.SetInParent()
            put(request.logprobs, "top_logprobs", self.top_logprobs, "top_logprobs")
        if self.response_format is not None and (constraint := to_constraint(self.response_format)) is not None:
            request.output_constraint.CopyFrom(constraint)
        if (choice := self.to_tool_choice()) is not None:
            request.tool_choice.CopyFrom(choice)
        if self.parallel_tool_calls is not None:
            request.parallel_tool_calls = self.parallel_tool_calls
        if self.reasoning_effort is not None:
            request.reasoning_effort = EFFORTS[self.reasoning_effort]
        return request

    def to_tools(self) -> list[tool_pb2.Tool]:
        """Return the contract's tools. Raise Failure."""
        return [to_tool(tool) for tool in self.tools or ()]

    def to_tool_choice(self) -> tool_pb2.ToolChoice | None:
        """Return the contract's tool choice, or None if absent."""
        return None if self.tool_choice is None else to_tool_choice(self.tool_choice)

    def caller_name(self, field: str) -> str:
        """Return the caller's name of a field: `serving.priority` → `priority`, `messages[0]` → `messages.0`."""
        path = Conversation(self.messages).caller_path(dotted(field))
        if (text := _CONTENT.match(path)) and self._is_plain_text(int(text[1])):
            return f"messages.{text[1]}.content"
        if (call := _CALL.match(path)) and self._is_old_call(int(call[1])):
            return f"messages.{call[1]}.function_call.{call[3]}"
        if call and self._is_custom(int(call[1]), int(call[2])):
            return f"messages.{call[1]}.tool_calls.{call[2]}.custom.{'name' if call[3] == 'name' else 'input'}"
        if reasoning := _REASONING.match(path):
            return f"{reasoning[1]}.reasoning_content"
        if path == "stopping.max_tokens" and self.max_completion_tokens is not None:
            return "max_completion_tokens"
        return self.stop_name(path) or renamed(path, _CALLER_NAMES)

    def _is_custom(self, index: int, call_index: int) -> bool:
        calls = self.messages[index].tool_calls if index < len(self.messages) else None
        return calls is not None and call_index < len(calls) and calls[call_index].type == "custom"

    def _is_old_call(self, index: int) -> bool:
        return index < len(self.messages) and self.messages[index].function_call is not None

    def _is_plain_text(self, index: int) -> bool:
        return index < len(self.messages) and not isinstance(self.messages[index].content, list)

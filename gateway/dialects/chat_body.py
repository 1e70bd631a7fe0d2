"""The body of a chat request, as the dialects of OpenAI's kin write it.

Owns the fields that they share, their mapping to the contract's request, and the way back for field names. A dialect
adds its own fields by inheritance. Null means the same as not given, everywhere.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec
from sluice.v1 import chat_pb2, sampling_pb2

from gateway.dialects.chat_format import ResponseFormat, to_constraint
from gateway.dialects.chat_message import ChatMessage, to_message
from gateway.dialects.chat_tool import OfferedTool, ToolChoice, to_tool, to_tool_choice
from gateway.dialects.contract_limit import check_length, put
from gateway.dialects.failure import Failure

_EFFORTS: Final = {
    "none": chat_pb2.REASONING_EFFORT_NONE,
    "minimal": chat_pb2.REASONING_EFFORT_LOW,
    "low": chat_pb2.REASONING_EFFORT_LOW,
    "medium": chat_pb2.REASONING_EFFORT_MEDIUM,
    "high": chat_pb2.REASONING_EFFORT_HIGH,
    "xhigh": chat_pb2.REASONING_EFFORT_HIGH,
    "max": chat_pb2.REASONING_EFFORT_HIGH,
}
_CALLER_NAMES: Final = {  # the contract's path → the caller's, for whole paths and for their beginnings
    "sampling": "",
    "stopping": "",
    "logprobs.top_logprobs": "top_logprobs",
    "output_constraint": "response_format",
    "output_constraint.json_object": "response_format",
    "tool_choice.mode": "tool_choice",
    "tool_choice.function_name": "tool_choice.function.name",
}
_CONTENT: Final = re.compile(r"^messages\.(\d+)\.content\.0(?:\.text)?$")
_REASONING: Final = re.compile(r"^(messages\.\d+)\.reasoning$")


class ChatBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What all of them have. Ranges are the contract's."""

    messages: list[ChatMessage]
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    stop: str | list[str] | None = None
    response_format: ResponseFormat | None = None
    tools: list[OfferedTool] | None = None
    tool_choice: ToolChoice | None = None
    stream: bool | None = None

    def to_request(self, model: str) -> chat_pb2.ChatRequest:
        """The contract's request. Raises Failure for a value that no message can hold."""
        check_length(chat_pb2.ChatRequest, "messages", self.messages, "messages")
        request = chat_pb2.ChatRequest(
            model=model,
            messages=[to_message(message, f"messages.{i}") for i, message in enumerate(self.messages)],
            tools=[to_tool(tool) for tool in self.tools or ()],
        )
        sampling = request.sampling
        for name in ("temperature", "top_p", "frequency_penalty", "presence_penalty"):
            value = getattr(self, name)
            if value is not None:
                setattr(sampling, name, value)
        put_seed(sampling, self.seed)
        put(request.stopping, "max_tokens", self.max_tokens, "max_tokens")
        if self.stop is not None:
            request.stopping.stop.extend([self.stop] if isinstance(self.stop, str) else self.stop)
        if self.response_format is not None and (constraint := to_constraint(self.response_format)) is not None:
            request.output_constraint.CopyFrom(constraint)
        if self.tool_choice is not None:
            request.tool_choice.CopyFrom(to_tool_choice(self.tool_choice))
        return request

    def caller_name(self, field: str) -> str:
        """The caller's name of the contract's `field`: `sampling.top_k` → `top_k`, `messages[0]` → `messages.0`."""
        path = re.sub(r'\[(?:"([^"]*)"|(\w+))\]', r".\1\2", field)
        if (text := _CONTENT.match(path)) and self._is_plain_text(int(text[1])):
            return f"messages.{text[1]}.content"
        if thought := _REASONING.match(path):
            return f"{thought[1]}.reasoning_content"
        if isinstance(self.stop, str) and path.startswith("stopping.stop."):
            return "stop"
        head, rest = path, ""
        while head not in _CALLER_NAMES:
            head, dot, last = head.rpartition(".")
            if not dot:
                return path
            rest = f"{last}.{rest}" if rest else last
        return ".".join(part for part in (_CALLER_NAMES[head], rest) if part)

    def _is_plain_text(self, index: int) -> bool:
        return index < len(self.messages) and not isinstance(self.messages[index].content, list)


class ExtendedChatBody(ChatBody, kw_only=True):
    """What some have beyond: thinking, and more ways to sample under the names that other servers use."""

    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    watermark: bool | None = None
    min_tokens: int | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None

    def to_request(self, model: str) -> chat_pb2.ChatRequest:
        """The contract's request. Raises Failure for a value that no message can hold."""
        request = super().to_request(model)
        if self.reasoning_effort is not None:
            request.reasoning_effort = _EFFORTS[self.reasoning_effort]
        put(request.sampling, "top_k", self.top_k, "top_k")
        for name in ("min_p", "typical_p", "repetition_penalty", "watermark"):
            value = getattr(self, name)
            if value is not None:
                setattr(request.sampling, name, value)
        put(request.stopping, "min_tokens", self.min_tokens, "min_tokens")
        for i, token_id in enumerate(self.stop_token_ids or ()):
            if not 0 <= token_id < 2**32:
                raise Failure.of_field(f"stop_token_ids.{i}", f"must be from 0 to {2**32 - 1}")
            request.stopping.stop_token_ids.append(token_id)
        if self.ignore_eos is not None:
            request.stopping.ignore_eos = self.ignore_eos
        return request


def put_seed(sampling: sampling_pb2.SamplingParams, seed: int | None) -> None:
    """Set the seed. OpenAI's seeds are signed: a negative one counts as its two's complement in 64 bits."""
    if seed is not None and not -(2**63) <= seed < 2**64:
        raise Failure.of_field("seed", f"must be from {-(2**63)} to {2**64 - 1}")
    put(sampling, "seed", None if seed is None else seed % 2**64, "seed")

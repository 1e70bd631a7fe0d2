"""The request bodies of Anthropic's Messages API, and their conversion to ChatRequest.

The service checks the ranges of parameters; only ranges that the API narrows are checked here. Null is equivalent to an
absent field.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from sluice.v1 import chat_pb2, sampling_pb2

from gateway.dialects.anthropic.block import OnlyText
from gateway.dialects.anthropic.conversation import TurnMessage, Turns
from gateway.dialects.anthropic.thinking import (
    EnabledThinking,
    JsonFormat,
    OutputConfig,
    Thinking,
    is_shown,
    set_thinking,
    to_constraint,
)
from gateway.dialects.anthropic.tool import Tool, ToolChoice, is_parallel, offered, to_tool, to_tool_choice
from gateway.dialects.seam.caller_name import dotted, renamed
from gateway.dialects.seam.contract_copy import copy_fields
from gateway.dialects.seam.contract_limit import check_length
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import is_given
from gateway.dialects.seam.model_name import ModelName
from gateway.dialects.seam.output_interval import check_interval

_CALLER_NAMES: Final = {  # a field's path, or its first parts, in ChatRequest → in the client's body
    "sampling": "",
    "stopping": "",
    "stopping.stop": "stop_sequences",
    "serving": "",
    "output_constraint.json_schema": "output_config.format",
    "output_constraint": "output_config.format",
    "tool_choice.mode": "tool_choice",
    "tool_choice.function_name": "tool_choice.name",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "reasoning_effort": "thinking",
    "reasoning_budget": "thinking.budget_tokens",
}
# A path in a tool of ChatRequest. Anthropic's tools have no level `function`.
_TOOL: Final = re.compile(r"^tools\.(\d+)(\.function\b)?")
_REJECTED: Final = {  # an unsupported field → the reason for the error message
    "compaction": "conversations are not shortened",
    "container": "no tools run on this server",
    "mcp_servers": "no tools run on this server",
    "thread": "conversations are not stored; send all messages",
}


class Metadata(msgspec.Struct, forbid_unknown_fields=True):
    """The id of the end user. It is accepted and ignored."""

    user_id: str | None = None


class PromptBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields that form the prompt. A field of type Raw is accepted and ignored, unless it is in `_REJECTED`."""

    model: ModelName = None
    messages: Annotated[list[TurnMessage], Meta(min_length=1)]
    system: str | list[OnlyText] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: JsonFormat | None = None
    cache_control: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    context_management: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    mcp_servers: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    speed: Literal["standard"] | None = None

    def to_chat(self) -> tuple[chat_pb2.ChatRequest, Turns]:
        """Return a ChatRequest with these fields, and the Turns that know which part of the body each message is from.

        Raise Failure if the contract can't express the body.
        """
        for name, reason in _REJECTED.items():
            if is_given(raw := getattr(self, name, msgspec.Raw())) and bytes(raw) != b"[]":
                raise Failure.of_field(name, f"not supported: {reason}", Reason.UNSUPPORTED_FIELD)
        check_length(chat_pb2.ChatRequest, "messages", self.messages, "messages")
        check_length(chat_pb2.ChatRequest, "tools", self.tools or (), "tools")
        tools = self.tools or []
        turns = Turns(self.system, self.messages)
        for i, message in enumerate(self.messages):
            turns.add(message, f"messages.{i}")
        request = chat_pb2.ChatRequest(
            model=self.model or "",
            messages=turns.messages,
            tools=[to_tool(tools[i], f"tools.{i}") for i in offered(tools)],
        )
        if turns.is_open:
            request.continue_final_message = True
        if self.tool_choice is not None:
            request.tool_choice.CopyFrom(to_tool_choice(self.tool_choice))
        if (parallel := is_parallel(self.tool_choice)) is not None:
            request.parallel_tool_calls = parallel
        config = self.output_config or OutputConfig()
        set_thinking(request, self.thinking, config.effort)
        if config.format is not None:
            request.output_constraint.CopyFrom(to_constraint(config.format, "output_config.format"))
        elif self.output_format is not None:
            request.output_constraint.CopyFrom(to_constraint(self.output_format, "output_format"))
        return request, turns

    def caller_name(self, field: str, turns: Turns) -> str:
        """Return the path in the client's body of a `field` of ChatRequest.

        For example `serving.priority` → `priority`, `messages[0]` → `system`.
        """
        path = dotted(field)
        if path.startswith("messages."):
            return turns.caller_name(path)
        if tool := _TOOL.match(path):
            index, rest = int(tool[1]), path[tool.end() :]
            positions = offered(self.tools or ())
            head = f"tools.{positions[index] if index < len(positions) else index}"
            return f"{head}.input_schema" if rest == ".parameters" else head + rest
        if path.startswith("output_constraint") and (self.output_config is None or self.output_config.format is None):
            path = renamed(
                path, {"output_constraint.json_schema": "output_format", "output_constraint": "output_format"}
            )
        return renamed(path, _CALLER_NAMES)


class MessagesBody(PromptBody, kw_only=True):
    """The body of `POST /v1/messages`. The fields from `min_p` on are not Anthropic's but the contract's."""

    max_tokens: int
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None
    top_p: float | None = None
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    inference_geo: str | None = None
    diagnostics: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    billing_policy: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    fallbacks: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    fallback_credit_token: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    user_profile_id: str | None = None
    workspace_id: str | None = None
    compaction: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    container: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    thread: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    min_p: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    seed: int | None = None
    watermark: bool | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    output_interval_ms: int | None = None
    priority: int | None = None
    cache_salt: str | None = None
    slo_first_token_seconds: float | None = None
    slo_token_seconds: float | None = None
    receipt: bool | None = None

    @property
    def shows_thinking(self) -> bool:
        """True if the client wants the text of the thinking, rather than empty thinking blocks."""
        return is_shown(self.thinking)

    def to_request(self) -> tuple[chat_pb2.ChatRequest, Turns]:
        """Return the complete ChatRequest, and the Turns of its messages as `to_chat` does. Raise Failure."""
        request, turns = self.to_chat()
        copy_fields(self, request.sampling)
        copy_fields(self, request.stopping)
        copy_fields(self, request.serving)
        check_interval(self.output_interval_ms, "output_interval_ms")
        if self.output_interval_ms == 0:
            request.serving.separate_tokens = True
        if self.stop_sequences is not None:
            check_length(sampling_pb2.StopParams, "stop", self.stop_sequences, "stop_sequences")
            request.stopping.stop.extend(self.stop_sequences)
        if isinstance(self.thinking, EnabledThinking) and self.thinking.budget_tokens >= self.max_tokens:
            raise Failure.of_field("thinking.budget_tokens", f"must be below max_tokens ({self.max_tokens})")
        return request, turns


class CountTokensBody(PromptBody, kw_only=True):
    """The body of `POST /v1/messages/count_tokens`: the fields of the prompt, without those of the answer."""

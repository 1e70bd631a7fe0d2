"""The body of a response request: every field of OpenAI's responses API, and those that Databricks adds.

Some fields have an effect, some are accepted without effect, and some are rejected because ignoring them would mislead
the caller; they are listed in the table of docs/api/responses.md; a test tries every row of it. Null means absent.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

import msgspec
from sluice.v1 import response_pb2, serving_pb2

from gateway.dialects.openai_family.chat.body import EFFORTS
from gateway.dialects.openai_family.parameters.sampling import CALLER_NAMES, DrawingBody
from gateway.dialects.openai_family.parameters.service_tier import check_tier
from gateway.dialects.openai_family.parameters.stream_options import StreamOptions, separate_tokens, streamed_usage
from gateway.dialects.openai_family.responses.item import Input, item_name, to_items
from gateway.dialects.openai_family.responses.response_id import to_conversation_id, to_id
from gateway.dialects.openai_family.responses.tool import (
    Format,
    SchemaFormat,
    ToolChoice,
    format_answer,
    to_constraint,
    to_tool,
    to_tool_choice,
    tool_choice_answer,
    tools_answer,
)
from gateway.dialects.openai_family.responses.tool_kind import (
    NamedTool,
    Offered,
    ResponseTool,
    allowed_only,
    offered_field,
    offered_tools,
)
from gateway.dialects.seam.caller_name import dotted, renamed
from gateway.dialects.seam.contract_limit import check_length, put
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import is_given
from gateway.dialects.seam.model_name import ModelName

_REJECTED: Final = {
    "context_management": "context compaction is not available",
    "moderation": "moderation is not available",
    "prompt": "prompts are not stored; use instructions and input",
}
_LOGPROBS: Final = "message.output_text.logprobs"
_CALLER_NAMES: Final = {  # the contract's path → the caller's, for whole paths and for prefixes
    **CALLER_NAMES,
    "client_data": "store",
    "logprobs.top_logprobs": "top_logprobs",
    "output_constraint": "text.format",
    "output_constraint.json_object": "text.format",
    "output_constraint.json_schema": "text.format",
    "reasoning_effort": "reasoning.effort",
    "serving.error_behavior": "truncation",
    "tool_choice.mode": "tool_choice",
    "tool_choice.function_name": "tool_choice.name",
}
_TOOL: Final = re.compile(r"^tools\.(\d+)\.function(?:\.(.*))?$")


class TextConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The format of the text."""

    format: Format | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningConfig(msgspec.Struct, forbid_unknown_fields=True):
    """Reasoning options. Reasoning is returned verbatim, without summaries or encryption.

    The model's template decides which earlier reasoning it sees, whatever the `context`.
    """

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    encrypted_content: str | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    mode: Literal["standard"] | None = None


class NamedConversation(msgspec.Struct, forbid_unknown_fields=True):
    """A conversation as an object."""

    id: str


class ResponseBody(DrawingBody, kw_only=True):
    """The body of a request. Fields of type Raw are checked for presence only."""

    model: ModelName = None
    input: Input
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)] | None = None  # for absent tools
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    tools: list[ResponseTool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    include: (
        list[
            Literal[
                "file_search_call.results",
                "web_search_call.results",
                "web_search_call.action.sources",
                "message.input_image.image_url",
                "computer_call_output.output.image_url",
                "code_interpreter_call.outputs",
                "reasoning.encrypted_content",
                "message.output_text.logprobs",
            ]
        ]
        | None
    ) = None
    top_logprobs: int | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: dict[str, str] | None = None
    client_metadata: dict[str, msgspec.Raw] | None = None  # an agent's own data about its call
    chat_template_kwargs: dict[str, msgspec.Raw] | None = None
    prompt_cache_key: str | None = None
    stream_options: StreamOptions | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    conversation: str | NamedConversation | None = None
    background: bool | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    safety_identifier: str | None = None
    user: str | None = None
    context_management: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    moderation: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    prompt: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    prompt_cache_options: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    service_tier: str | None = None

    def check(self) -> None:
        """Raise Failure for fields that would have to be ignored, and for fields that contradict each other."""
        for name, reason in _REJECTED.items():
            if is_given(getattr(self, name)):
                raise Failure.of_field(name, f"not supported: {reason}", Reason.UNSUPPORTED_FIELD)
        check_tier(self.service_tier)
        if self.background and self.store is False:
            raise Failure.of_field("background", "needs store: true, which is its default then")
        streamed_usage(self.stream_options, stream=self.stream)

    @property
    def _conversation_id(self) -> str:
        """The caller's id of the conversation, or empty."""
        return self.conversation.id if isinstance(self.conversation, NamedConversation) else self.conversation or ""

    @property
    def is_stored(self) -> bool:
        """Whether the response is to be stored; by default, only in the background."""
        return bool(self.background if self.store is None else self.store)

    def offered_tools(self) -> list[Offered]:
        """Return the tools that the model is offered. Raise Failure if there are only tools of other kinds."""
        offered = offered_tools(self.tools or ())
        if not isinstance(self.tool_choice, NamedTool) or self.tool_choice.type != "allowed_tools":
            return offered
        if self.tool_choice.tools is None:
            raise Failure.of_field("tool_choice.tools", "required, but missing", Reason.MISSING_FIELD)
        return allowed_only(offered, self.tool_choice.tools)

    def to_request(self, model: str) -> response_pb2.CreateResponseRequest:
        """Return the contract's request to `model`. Raise Failure if it can't be served or represented."""
        self.check()
        if not isinstance(self.input, str):
            check_length(response_pb2.CreateResponseRequest, "input", self.input, "input")
        tools = self.offered_tools()
        check_length(response_pb2.CreateResponseRequest, "tools", tools, "tools")
        check_length(response_pb2.CreateResponseRequest, "metadata", self.metadata or (), "metadata")
        request = response_pb2.CreateResponseRequest(
            model=model,
            input=to_items(self.input),
            instructions=self.instructions,
            tools=[to_tool(each) for each in tools],
            parallel_tool_calls=self.parallel_tool_calls,
            metadata=self.metadata,
            store=self.is_stored,
            background=self.background or False,
            previous_response_id=to_id(self.previous_response_id or ""),
            conversation=to_conversation_id(self._conversation_id),
        )
        self.set_drawing(request)
        put(request, "max_output_tokens", self.max_output_tokens, "max_output_tokens")
        if self.top_logprobs or _LOGPROBS in (self.include or ()):
            request.logprobs.SetInParent()
            put(request.logprobs, "top_logprobs", self.top_logprobs, "top_logprobs")
        if self.text is not None and self.text.format is not None:
            constraint = to_constraint(self.text.format)
            if constraint is not None:
                request.output_constraint.CopyFrom(constraint)
        if self.tool_choice is not None:
            request.tool_choice.CopyFrom(to_tool_choice(self.tool_choice))
        if self.chat_template_kwargs is not None:
            request.chat_template_kwargs = msgspec.json.encode(self.chat_template_kwargs).decode()
        if self.reasoning is not None and self.reasoning.effort is not None:
            request.reasoning_effort = EFFORTS[self.reasoning.effort]
        separate_tokens(request.serving, self.stream_options)
        if self.truncation == "auto":
            request.serving.error_behavior = serving_pb2.ERROR_BEHAVIOR_TRUNCATE
        return request

    def caller_name(self, field: str) -> str:
        """Return the caller's name of a field: `serving.priority` → `priority`, `input[0].message` → `input.0`."""
        path = dotted(field)
        for earlier in ("previous_response_id", "conversation"):
            if path.startswith(f"{earlier}."):
                return earlier  # one of its items
        if (name := item_name(self.input, path)) is not None:
            return name
        if (tool := _TOOL.match(path)) and self.tools:
            return offered_field(self.offered_tools()[int(tool[1])], tool[2] or "")
        if path == "tool_choice.function_name" and self._names_tool_inside():
            return "tool_choice.function.name"
        if path.startswith("output_constraint.json_schema") and self._has_schema_inside():
            return path.replace("output_constraint", "text.format", 1)
        return renamed(path, _CALLER_NAMES)

    def echo(self) -> dict[str, Any]:
        """Return the request's fields that the answer echoes, except those with effective values."""
        reasoning = self.reasoning or ReasoningConfig()
        text = self.text or TextConfig()
        return {
            "background": self.background or False,
            "instructions": self.instructions,
            "max_output_tokens": self.max_output_tokens,
            "max_tool_calls": self.max_tool_calls,
            "parallel_tool_calls": self.parallel_tool_calls is not False,
            "prompt_cache_key": self.prompt_cache_key,
            "prompt_cache_retention": self.prompt_cache_retention,
            "reasoning": {"effort": reasoning.effort, "summary": reasoning.summary or reasoning.generate_summary},
            "safety_identifier": self.safety_identifier,
            "store": self.is_stored,
            # A verbosity may be left out, but not be null: Open Responses.
            "text": {"format": format_answer(text.format), **({"verbosity": text.verbosity} if text.verbosity else {})},
            "tool_choice": tool_choice_answer(self.tool_choice),
            "tools": tools_answer(self.tools or ()),
            "top_logprobs": self.top_logprobs or 0,
            "truncation": self.truncation or "disabled",
            "user": self.user,
        }

    def _names_tool_inside(self) -> bool:
        return isinstance(self.tool_choice, NamedTool) and self.tool_choice.function is not None

    def _has_schema_inside(self) -> bool:
        text_format = self.text.format if self.text is not None else None
        return isinstance(text_format, SchemaFormat) and text_format.json_schema is not None

"""The body of Cohere's chats, and its conversion to ChatRequest. Null is equivalent to an absent field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from sluice.v1 import chat_pb2, content_pb2, sampling_pb2, tool_pb2

from gateway.dialects.cohere.message import CohereMessage, Document, document_text, to_message
from gateway.dialects.seam.caller_name import dotted, renamed
from gateway.dialects.seam.contract_copy import copy_fields
from gateway.dialects.seam.contract_limit import check_length, put
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.history import move_later_to_user
from gateway.dialects.seam.json_body import is_given
from gateway.dialects.seam.model_name import ModelName
from gateway.dialects.seam.output_interval import check_interval

_BETWEEN_DOCUMENTS: Final = "\n\n"
_CALLER_NAMES: Final = {  # a field's path, or its first parts, in ChatRequest → in the client's body
    "sampling": "",
    "sampling.top_k": "k",
    "sampling.top_p": "p",
    "stopping": "",
    "stopping.stop": "stop_sequences",
    "serving": "",
    "logprobs": "logprobs",
    "output_constraint": "response_format",
    "output_constraint.json_object": "response_format",
    "output_constraint.json_schema": "response_format.json_schema",
    "output_constraint.json_schema.schema": "response_format.json_schema",
    "tool_choice.mode": "tool_choice",
    "reasoning_effort": "thinking",
    "reasoning_budget": "thinking.token_budget",
}
_CONTENT: Final = re.compile(r"^messages\.(\d+)\.content\.\d+(?:\.text)?$")
_CHOICES: Final = {"REQUIRED": tool_pb2.TOOL_CHOICE_MODE_REQUIRED, "NONE": tool_pb2.TOOL_CHOICE_MODE_NONE}


class OfferedFunction(msgspec.Struct, forbid_unknown_fields=True):
    """A function that the model may call. `parameters` is a JSON Schema."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class OfferedTool(msgspec.Struct, forbid_unknown_fields=True):
    """A tool that the model may call."""

    type: Literal["function"]
    function: OfferedFunction


class TextFormat(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    """Free text."""


class JsonFormat(msgspec.Struct, tag_field="type", tag="json_object", forbid_unknown_fields=True):
    """A JSON object, which matches a schema if there is one."""

    json_schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class Thinking(msgspec.Struct, forbid_unknown_fields=True):
    """How much the model thinks before it answers."""

    type: Literal["enabled", "disabled"]
    token_budget: int | None = None


class CitationOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Options of citations, which answers don't have."""

    mode: str | None = None


class CohereChatBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /v2/chat`. Ranges are the contract's, except those that the API narrows."""

    model: ModelName = None
    messages: list[CohereMessage]
    stream: bool | None = None
    tools: list[OfferedTool] | None = None
    strict_tools: bool | None = None
    tool_choice: Literal["REQUIRED", "NONE"] | None = None
    documents: list[str | Document] | None = None
    citation_options: CitationOptions | None = None
    response_format: TextFormat | JsonFormat | None = None
    safety_mode: Literal["CONTEXTUAL", "STRICT", "OFF", "NONE"] | None = None
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    seed: Annotated[int, Meta(ge=0)] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    k: Annotated[int, Meta(ge=0)] | None = None
    p: float | None = None
    logprobs: bool | None = None
    thinking: Thinking | None = None
    priority: int | None = None
    slo_first_token_seconds: float | None = None
    slo_token_seconds: float | None = None
    receipt: bool | None = None
    output_interval_ms: int | None = None

    def check(self) -> None:
        """Raise Failure for fields that this server doesn't support."""
        mode = self.citation_options.mode if self.citation_options is not None else None
        if mode not in {None, "OFF", "DISABLED"}:
            text = "must be OFF or DISABLED: answers have no citations"
            raise Failure.of_field("citation_options.mode", text, Reason.UNSUPPORTED_FIELD)
        if self.safety_mode == "STRICT":
            text = "must be CONTEXTUAL or OFF: prompts get no safety instructions"
            raise Failure.of_field("safety_mode", text, Reason.UNSUPPORTED_FIELD)
        check_interval(self.output_interval_ms, "output_interval_ms")

    def to_request(self) -> chat_pb2.ChatRequest:
        """Return the contract's request. Raise Failure if it can't be served or represented."""
        self.check()
        check_length(chat_pb2.ChatRequest, "messages", self.messages, "messages")
        check_length(chat_pb2.ChatRequest, "tools", self.tools or (), "tools")
        request = chat_pb2.ChatRequest(
            model=self.model or "",
            messages=[to_message(message, f"messages.{i}") for i, message in enumerate(self.messages)],
            tools=[_to_tool(tool, strict=self.strict_tools) for tool in self.tools or ()],
        )
        move_later_to_user(request.messages)
        if self.documents:
            _add_documents(request.messages, self.documents)
        self._set_sampling(request)
        if self.tool_choice is not None:
            request.tool_choice.mode = _CHOICES[self.tool_choice]
        if isinstance(self.response_format, JsonFormat):
            _set_format(request.output_constraint, self.response_format)
        if self.thinking is not None:
            enabled = self.thinking.type == "enabled"
            request.reasoning_effort = chat_pb2.REASONING_EFFORT_HIGH if enabled else chat_pb2.REASONING_EFFORT_NONE
            put(request, "reasoning_budget", self.thinking.token_budget, "thinking.token_budget")
        return request

    def caller_name(self, field: str) -> str:
        """Return the caller's name of a field: `stopping.stop` → `stop_sequences`, `messages[0]` → `messages.0`."""
        path = dotted(field)
        if (text := _CONTENT.match(path)) and self._is_plain_text(int(text[1])):
            return f"messages.{text[1]}.content"
        return renamed(path, _CALLER_NAMES)

    def _is_plain_text(self, index: int) -> bool:
        return index < len(self.messages) and not isinstance(self.messages[index].content, list)

    def _set_sampling(self, request: chat_pb2.ChatRequest) -> None:
        sampling = request.sampling
        for name, value in (
            ("temperature", self.temperature),
            ("top_p", self.p),
            ("frequency_penalty", self.frequency_penalty),
            ("presence_penalty", self.presence_penalty),
        ):
            if value is not None:
                setattr(sampling, name, value)
        put(sampling, "top_k", self.k, "k")
        put(sampling, "seed", self.seed, "seed")
        put(request.stopping, "max_tokens", self.max_tokens, "max_tokens")
        check_length(sampling_pb2.StopParams, "stop", self.stop_sequences or (), "stop_sequences")
        request.stopping.stop.extend(self.stop_sequences or ())
        copy_fields(self, request.serving)
        if self.logprobs:
            request.logprobs.SetInParent()
        if self.output_interval_ms == 0:
            request.serving.separate_tokens = True


def _to_tool(tool: OfferedTool, *, strict: bool | None) -> tool_pb2.Tool:
    function = tool_pb2.FunctionDefinition(name=tool.function.name, strict=strict)
    if tool.function.description is not None:
        function.description = tool.function.description
    if is_given(tool.function.parameters):
        function.parameters = bytes(tool.function.parameters).decode()
    return tool_pb2.Tool(function=function)


def _set_format(constraint: sampling_pb2.OutputConstraint, wanted: JsonFormat) -> None:
    if not is_given(wanted.json_schema):
        constraint.json_object.SetInParent()
        return
    constraint.json_schema.name = "output"
    constraint.json_schema.schema = bytes(wanted.json_schema).decode()


def _add_documents(messages: Sequence[content_pb2.Message], documents: Sequence[str | Document]) -> None:
    """Put the documents before the text of the last user's message. Raise Failure if there is none."""
    last = next((each for each in reversed(messages) if each.role == content_pb2.ROLE_USER), None)
    if last is None:
        raise Failure.of_field("documents", "need a message of the role user")
    text = _BETWEEN_DOCUMENTS.join(map(document_text, documents)) + _BETWEEN_DOCUMENTS
    if last.content and last.content[0].HasField("text"):
        last.content[0].text = text + last.content[0].text
    else:
        last.content.insert(0, content_pb2.ContentPart(text=text))

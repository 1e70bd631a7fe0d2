"""The chat request of the OpenAI style, with every field of OpenAI's chat completions API.

Some fields have an effect, some are accepted without effect, and some are rejected because ignoring them would mislead
the caller; they are listed in the table of docs/api/openai.md; a test tries every row of it.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

import msgspec
from sluice.v1 import chat_pb2, tool_pb2

from gateway.dialects.openai import chat_tool
from gateway.dialects.openai.chat_tool import ChatTool, ChatToolChoice, custom_names, tool_field
from gateway.dialects.openai.error import OpenAIErrors, OpenAIStreamErrors
from gateway.dialects.openai.extension import (
    TopK,
    UsageOptions,
    extension_name,
    normalise_top_k,
    requested_usage,
    set_extensions,
)
from gateway.dialects.openai.output_format import AnyFormat, StructuredOutputs, constraint_name
from gateway.dialects.openai.reasoning_options import ReasoningOptions, Thinking, set_thinking
from gateway.dialects.openai_family.answers.extra_fields import ExtraFields
from gateway.dialects.openai_family.chat.body import ChatBody
from gateway.dialects.openai_family.chat.encoder import ChatEncoder
from gateway.dialects.openai_family.chat.part import TextPart
from gateway.dialects.openai_family.parameters.service_tier import TIER, check_tier
from gateway.dialects.openai_family.parameters.stream_options import StreamOptions
from gateway.dialects.seam.caller_name import dotted
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode, is_given
from gateway.dialects.seam.model_name import ModelName
from gateway.dialects.seam.translator import ParsedRequest

_REJECTED: Final = {
    "audio": "audio output is not available",
    "function_call": "deprecated; use tool_choice",
    "functions": "deprecated; use tools",
    "moderation": "moderation is not available",
    "web_search_options": "web search is not available",
}


class ChatCompletionBody(ChatBody, kw_only=True):
    """The body of `POST /v1/chat/completions`. Fields of type Raw are checked for presence only.

    The fields from `response_format` on are extensions of other servers: docs/api/extensions.md.
    """

    model: ModelName = None
    top_k: TopK | None = None
    prompt_cache_key: str | None = None
    stream_options: StreamOptions | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    service_tier: str | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    user: str | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    prompt_cache_retention: str | None = None
    prediction: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    prompt_cache_options: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    audio: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    function_call: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    functions: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    moderation: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    web_search_options: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    response_format: AnyFormat | None = None  # type: ignore[assignment]  # more kinds than in the family
    tools: list[ChatTool] | None = None  # type: ignore[assignment]  # likewise
    tool_choice: ChatToolChoice | None = None  # type: ignore[assignment]  # likewise
    structured_outputs: StructuredOutputs | None = None
    guided_json: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_decoding_backend: str | None = None
    guided_whitespace_pattern: str | None = None
    regex: str | None = None
    json_schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    ebnf: str | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    return_token_ids: bool | None = None
    return_progress: bool | None = None
    repeat_penalty: float | None = None
    usage: UsageOptions | None = None
    best_of: int | None = None
    use_beam_search: bool | None = None
    length_penalty: float | None = None
    early_stopping: bool | None = None
    bad_words: list[str] | None = None
    logits_processors: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    request_id: str | None = None
    details: bool | None = None
    documents: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    provider: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    transforms: list[str] | None = None
    chat_template_kwargs: dict[str, msgspec.Raw] | None = None
    chat_template: str | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    echo: bool | None = None
    reasoning: ReasoningOptions | None = None
    include_reasoning: bool | None = None
    thinking: Thinking | None = None
    enable_thinking: bool | None = None
    thinking_budget: int | None = None

    def __post_init__(self) -> None:
        normalise_top_k(self)

    def check(self) -> None:
        """Raise Failure for fields that would have to be ignored, and for fields that contradict each other."""
        for name, reason in _REJECTED.items():
            if is_given(getattr(self, name)):
                raise Failure.of_field(name, f"not supported: {reason}", Reason.UNSUPPORTED_FIELD)
        if self.store:
            raise Failure.of_field("store", "must be false: answers are not stored", Reason.UNSUPPORTED_FIELD)
        if "audio" in (self.modalities or ()):
            raise Failure.of_field("modalities", 'must be ["text"]', Reason.UNSUPPORTED_FIELD)
        check_tier(self.service_tier)

    def to_chat(self) -> chat_pb2.ChatRequest:
        """Return the contract's request. Raise Failure if it can't be served or represented."""
        self.check()
        request = self.to_request(self.model or "")
        set_extensions(self, request)
        if self.chat_template_kwargs is not None:
            request.chat_template_kwargs = msgspec.json.encode(self.chat_template_kwargs).decode()
        for name in ("add_generation_prompt", "continue_final_message"):
            if (value := getattr(self, name)) is not None:
                setattr(request, name, value)
        if self.reasoning is not None:
            self.reasoning.put(request)
        set_thinking(self, request)
        return request

    def extra_fields(self) -> ExtraFields:
        """Return the optional fields of the answer. Raise Failure if there is no message to echo."""
        options = self.reasoning or ReasoningOptions()
        names = ("reasoning_content",) if self.reasoning is None else ("reasoning_content", "reasoning")
        return ExtraFields(
            token_ids=bool(self.return_token_ids),
            prompt_logprobs=self.prompt_logprobs is not None,
            echo=self._echo() if self.echo else "",
            reasoning_names=() if options.exclude or self.include_reasoning is False else names,
        )

    def to_tools(self) -> list[tool_pb2.Tool]:
        """Return the contract's tools. Raise Failure."""
        return chat_tool.to_tools(self.tools or (), self.tool_choice)

    def to_tool_choice(self) -> tool_pb2.ToolChoice | None:
        """Return the contract's tool choice, or None if absent."""
        return None if self.tool_choice is None else chat_tool.to_tool_choice(self.tool_choice)

    def caller_name(self, field: str) -> str:
        """Return the caller's name of the contract's `field`."""
        if (tool := tool_field(self.tools or (), self.tool_choice, dotted(field))) is not None:
            return tool
        if (name := constraint_name(self, dotted(field))) is not None:
            return name
        return extension_name(self, field) or super().caller_name(field)

    def _echo(self) -> str:
        last = self.messages[-1] if self.messages else None
        if last is None or last.role != "assistant":
            raise Failure.of_field("echo", "needs a last message of the role assistant")
        content = last.content or ""
        if isinstance(content, str):
            return content
        return "".join(part.text for part in content if isinstance(part, TextPart))


class OpenAIEncoder(OpenAIStreamErrors, ChatEncoder):
    """Encodes an answer for OpenAI's clients."""

    tier: ClassVar = {"service_tier": TIER}


class OpenAITranslator(OpenAIErrors):
    """Translates one chat request."""

    decoder: ClassVar = msgspec.json.Decoder(ChatCompletionBody)

    def parse(self, http_request: HttpRequest) -> ParsedRequest[chat_pb2.ChatRequest]:
        """Parse a chat request. Raise Failure."""
        body = decode(http_request.body, self.decoder)
        request = body.to_chat()
        usage = requested_usage(body, request)
        return ParsedRequest(
            request=request,
            stream=bool(body.stream),
            encoder=OpenAIEncoder(
                usage=usage,
                has_logprobs=bool(body.logprobs),
                extra_fields=body.extra_fields(),
                custom_tools=custom_names(body.tools or ()),
            ),
            caller_name=body.caller_name,
            affinity=body.prompt_cache_key or "",
        )

"""Text completion of the OpenAI style. docs/api/openai.md has the table of its fields."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from sluice.v1 import completion_pb2

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
from gateway.dialects.openai_family.answers.extra_fields import ExtraFields
from gateway.dialects.openai_family.completions.body import CompletionBody
from gateway.dialects.openai_family.completions.encoder import CompletionEncoder
from gateway.dialects.openai_family.parameters.stream_options import StreamOptions
from gateway.dialects.seam.caller_name import dotted
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.model_name import ModelName
from gateway.dialects.seam.translator import ParsedRequest


class OpenAICompletionBody(CompletionBody, kw_only=True):
    """The body of `POST /v1/completions`. The fields from `response_format` on are extensions of other servers."""

    model: ModelName = None
    top_k: TopK | None = None
    stream_options: StreamOptions | None = None
    prompt_cache_key: str | None = None
    user: str | None = None
    response_format: AnyFormat | None = None  # type: ignore[assignment]  # more kinds than in the family
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

    def __post_init__(self) -> None:
        normalise_top_k(self)

    def to_completion(self) -> completion_pb2.CompleteRequest:
        """Return the contract's request. Raise Failure if it can't be served or represented."""
        request = self.to_request(self.model or "")
        set_extensions(self, request)
        if self.prompt_logprobs is not None and self.echo and self.logprobs is not None:
            raise Failure.of_field("prompt_logprobs", "can't be combined with echo and logprobs, which include it")
        return request

    def extra_fields(self) -> ExtraFields:
        """Return the optional fields that the answer includes."""
        return ExtraFields(token_ids=bool(self.return_token_ids), prompt_logprobs=self.prompt_logprobs is not None)

    def caller_name(self, field: str) -> str:
        """Return the caller's name of the contract's `field`."""
        if (name := constraint_name(self, dotted(field))) is not None:
            return name
        return extension_name(self, field) or super().caller_name(field)


class OpenAICompletionEncoder(OpenAIStreamErrors, CompletionEncoder):
    """Encodes a completion for OpenAI's clients."""


class OpenAICompletionTranslator(OpenAIErrors):
    """Translates one request for a completion."""

    decoder: ClassVar = msgspec.json.Decoder(OpenAICompletionBody)

    def parse(self, http_request: HttpRequest) -> ParsedRequest[completion_pb2.CompleteRequest]:
        """Parse a request. Raise Failure."""
        body = decode(http_request.body, self.decoder)
        request = body.to_completion()
        usage = requested_usage(body, request)
        return ParsedRequest(
            request=request,
            stream=bool(body.stream),
            encoder=OpenAICompletionEncoder(
                usage=usage, has_logprobs=body.logprobs is not None, extra_fields=body.extra_fields()
            ),
            caller_name=body.caller_name,
            affinity=body.prompt_cache_key or "",
        )

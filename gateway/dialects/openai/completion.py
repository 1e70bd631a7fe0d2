"""The OpenAI style: its text completion. docs/api/openai.md has the table of its fields."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from sluice.v1 import completion_pb2

from gateway.dialects.openai.error import OpenAIErrors, OpenAIStreamErrors
from gateway.dialects.openai_family.completion_body import CompletionBody
from gateway.dialects.openai_family.completion_encoder import CompletionEncoder
from gateway.dialects.openai_family.stream_options import StreamOptions, wants_usage
from gateway.dialects.seam.arrival import Arrival
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.translator import ParsedRequest


class OpenAICompletionBody(CompletionBody, kw_only=True):
    """The body of `POST /v1/completions`."""

    model: str
    best_of: int | None = None
    stream_options: StreamOptions | None = None
    prompt_cache_key: str | None = None
    user: str | None = None

    def to_completion(self) -> completion_pb2.CompleteRequest:
        """The contract's request. Raises Failure for what can't be served or held."""
        num_choices = 1 if self.n is None else self.n
        if self.best_of is not None and self.best_of != num_choices:
            text = f"must equal n ({num_choices}): every generated choice is returned"
            raise Failure.of_field("best_of", text, Reason.UNSUPPORTED_FIELD)
        return self.to_request(self.model)


class OpenAICompletionEncoder(OpenAIStreamErrors, CompletionEncoder):
    """OpenAI's completions."""


class OpenAICompletionTranslator(OpenAIErrors):
    """Translates one request for a completion."""

    decoder: ClassVar = msgspec.json.Decoder(OpenAICompletionBody)

    def parse(self, arrival: Arrival) -> ParsedRequest[completion_pb2.CompleteRequest]:
        """Read a request. Raises Failure."""
        body = decode(arrival.body, self.decoder)
        return ParsedRequest(
            request=body.to_completion(),
            stream=bool(body.stream),
            encoder=OpenAICompletionEncoder(
                include_usage=wants_usage(body.stream_options, stream=body.stream),
                has_logprobs=body.logprobs is not None,
            ),
            caller_name=body.caller_name,
            affinity=body.prompt_cache_key or "",
        )

"""Text completion of Databricks.

A prompt is rendered by the model's chat template unless `use_raw_prompt` is true.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from sluice.v1 import completion_pb2, serving_pb2

from gateway.dialects.databricks.error import DatabricksErrors, DatabricksStream
from gateway.dialects.databricks.target import check_extra_params, endpoint_name, wants_stream
from gateway.dialects.openai_family.completions.body import CompletionBody
from gateway.dialects.openai_family.completions.encoder import CompletionEncoder
from gateway.dialects.openai_family.parameters.stream_options import StreamOptions, request_usage
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.model_name import ModelName
from gateway.dialects.seam.translator import ParsedRequest

_BEHAVIORS: Final = {
    "error": serving_pb2.ERROR_BEHAVIOR_ERROR,
    "truncate": serving_pb2.ERROR_BEHAVIOR_TRUNCATE,
}


class DatabricksCompletionBody(CompletionBody, kw_only=True):
    """The body of a completion."""

    model: ModelName = None
    error_behavior: Literal["truncate", "error"] | None = None
    use_raw_prompt: bool | None = None
    stream_options: StreamOptions | None = None
    prompt_cache_key: str | None = None
    extra_params: dict[str, str] | None = None
    client_request_id: str | None = None
    usage_context: dict[str, str] | None = None
    user: str | None = None

    def to_completion(self, model: str) -> completion_pb2.CompleteRequest:
        """Return the contract's request. Raise Failure if it can't be served or represented."""
        check_extra_params(self.extra_params)
        request = self.to_request(model)
        request.use_raw_prompt = bool(self.use_raw_prompt)
        if self.error_behavior is not None:
            request.serving.error_behavior = _BEHAVIORS[self.error_behavior]
        return request


_DECODER: Final = msgspec.json.Decoder(DatabricksCompletionBody)


class DatabricksCompletionEncoder(DatabricksStream, CompletionEncoder):
    """Encodes a completion."""


class DatabricksCompletionTranslator(DatabricksErrors):
    """Translates one request for a completion. In an endpoint's invocations, `index` of a choice is its prompt's."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[completion_pb2.CompleteRequest]:
        """Parse a request. Raise Failure."""
        body = decode(http_request.body, _DECODER)
        stream = wants_stream(http_request, stream=body.stream)
        request = body.to_completion(endpoint_name(http_request, body.model))
        usage = request_usage(request, body.stream_options, stream=stream)
        return ParsedRequest(
            request=request,
            stream=stream,
            encoder=DatabricksCompletionEncoder(
                usage=usage,
                has_logprobs=body.logprobs is not None,
                index_by_prompt="name" in http_request.path,
            ),
            caller_name=body.caller_name,
            affinity=body.prompt_cache_key or "",
        )

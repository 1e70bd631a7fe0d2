"""Fields of vLLM, SGLang, TGI, OpenRouter and llama.cpp that chats and completions share.

Their effects are in the table of docs/api/extensions.md, which a test compares with the bodies.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Protocol, TypeAlias

import msgspec
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.completion_pb2 import CompleteRequest
from sluice.v1.logprobs_pb2 import LogprobsOptions
from sluice.v1.serving_pb2 import ServingOptions

from gateway.dialects.openai.output_format import FormatBody, set_constraint
from gateway.dialects.openai_family.parameters.stream_options import StreamedUsage, StreamOptions, request_usage
from gateway.dialects.seam.contract_limit import check_length, check_text, put
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import is_given

_NO_TOP_K: Final = -1  # the value that disables it in vLLM and SGLang; 0 disables it too, as in the contract
TopK: TypeAlias = Annotated[int, msgspec.Meta(ge=-1)]
_BEAMS: Final = "beam search is not available"
# Rejected fields, with the neutral values that clients send by default.
_REJECTED: Final[dict[str, tuple[str, tuple[Any, ...]]]] = {
    "use_beam_search": (_BEAMS, (False,)),
    "length_penalty": (f"it counts in a beam search only, and {_BEAMS}", (1.0,)),
    "early_stopping": (f"it counts in a beam search only, and {_BEAMS}", (False,)),
    "chat_template": ("a template is a program; the model's own is used", ()),
    "guided_whitespace_pattern": ("the white space between parts of JSON is the server's", ()),
    "details": ("see usage, finish_reason and logprobs", (False,)),
    "documents": ("the model's template decides about its variables; write the documents into a message", ([],)),
    "transforms": ("prompts are not shortened", ([],)),
    "bad_words": ("words are not matched with tokens; use logit_bias, by token id", ([],)),
    "logits_processors": ("callers' programs are not run; use logit_bias", ([],)),
}


class UsageOptions(msgspec.Struct, forbid_unknown_fields=True):
    """OpenRouter's request for the usage, which whole answers always have."""

    include: bool | None = None


class Extended(FormatBody, Protocol):
    """A body with the fields of other servers."""

    top_k: int | None
    n: int | None
    best_of: int | None
    stream: bool | None
    stream_options: StreamOptions | None
    usage: UsageOptions | None
    repetition_penalty: float | None
    repeat_penalty: float | None
    skip_special_tokens: bool | None
    spaces_between_special_tokens: bool | None
    prompt_logprobs: int | None
    logprob_token_ids: list[int] | None
    return_token_ids: bool | None
    return_progress: bool | None
    request_id: str | None


def normalise_top_k(body: Extended) -> None:
    """Set `top_k` to the contract's value that disables it, if it has vLLM's and SGLang's."""
    if body.top_k == _NO_TOP_K:
        body.top_k = 0


def requested_usage(body: Extended, request: ChatRequest | CompleteRequest) -> StreamedUsage:
    """Return the chunks that have usage, and request what they need. Raise Failure for unsupported options."""
    usage = request_usage(request, body.stream_options, stream=body.stream)
    if usage is StreamedUsage.NONE and body.stream and body.usage is not None and body.usage.include:
        return StreamedUsage.LAST
    return usage


def extension_name(body: Extended, field: str) -> str | None:
    """Return the caller's name of the contract's `field`, or None if it is no extension."""
    if field == "sampling.repetition_penalty" and body.repeat_penalty is not None:
        return "repeat_penalty"
    return "prompt_logprobs" if field == "prompt_logprobs.top_logprobs" else None


def set_extensions(body: Extended, request: ChatRequest | CompleteRequest) -> None:
    """Set these fields. Raise Failure for unsupported fields, and for values outside the contract's types."""
    _reject_unsupported(body)
    check_text(ServingOptions, "request_id", body.request_id, "request_id")  # it has no effect
    set_constraint(body, request.output_constraint)
    if body.repeat_penalty is not None:
        if body.repetition_penalty not in {None, body.repeat_penalty}:
            raise Failure.of_field("repeat_penalty", "must equal repetition_penalty, its other name")
        request.sampling.repetition_penalty = body.repeat_penalty
    if body.skip_special_tokens is not None:
        request.skip_special_tokens = body.skip_special_tokens
    if body.spaces_between_special_tokens and body.skip_special_tokens is False:
        text = "must be false with skip_special_tokens: false; tokens are joined as they are"
        raise Failure.of_field("spaces_between_special_tokens", text, Reason.UNSUPPORTED_FIELD)
    if body.prompt_logprobs is not None:
        if body.stream:
            raise Failure.of_field("prompt_logprobs", "only allowed without stream: true")
        request.prompt_logprobs.SetInParent()
        put(request.prompt_logprobs, "top_logprobs", body.prompt_logprobs, "prompt_logprobs")
    if body.logprob_token_ids:
        _set_logprob_tokens(body.logprob_token_ids, request)
    if body.return_token_ids:
        request.tokens.ids = True
    if body.return_progress and body.stream:  # clients of llama.cpp's server also send it without `stream`
        request.serving.report_progress = True


def _set_logprob_tokens(token_ids: list[int], request: ChatRequest | CompleteRequest) -> None:
    """Request the logprobs of these tokens. Raise Failure without logprobs, or for values outside the range of ids."""
    if not request.HasField("logprobs"):
        raise Failure.of_field("logprob_token_ids", "only allowed with logprobs")
    check_length(LogprobsOptions, "token_ids", token_ids, "logprob_token_ids")
    for i, token_id in enumerate(token_ids):
        if not 0 <= token_id < 2**32:
            raise Failure.of_field(f"logprob_token_ids.{i}", f"must be from 0 to {2**32 - 1}")
    request.logprobs.token_ids.extend(token_ids)


def _reject_unsupported(body: Extended) -> None:
    """Raise Failure for fields with unsupported values."""
    num_choices = 1 if body.n is None else body.n
    if body.best_of is not None and body.best_of != num_choices:
        text = f"must equal n ({num_choices}): every generated choice is returned"
        raise Failure.of_field("best_of", text, Reason.UNSUPPORTED_FIELD)
    for name, (reason, harmless_values) in _REJECTED.items():
        value = getattr(body, name, None)
        if isinstance(value, msgspec.Raw):
            value = msgspec.json.decode(value) if is_given(value) else None
        if value is not None and value not in harmless_values:
            raise Failure.of_field(name, f"not supported: {reason}", Reason.UNSUPPORTED_FIELD)

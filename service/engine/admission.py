"""What a request must fulfil before it may wait.

Owns the checks that only the engine can make: against the model's vocabulary, its context and the cache. Pure, so any
thread may call it. Ranges that hold for every server are the contract's; they are checked here again only where a value
beyond them would break a step and with it every other request.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from service.generation.errors import InvalidRequest, PromptTooLong
from service.generation.parameters import SamplingParams, StopParams
from service.generation.request import GenerationRequest

MAX_LOGPROBS = 20
_MIN_RETRY_S = 1.0
_MAX_RETRY_S = 30.0


def retry_after_s(waited_s: float) -> float:
    """When to come back to a full queue whose oldest has waited so long: as long may the next expect to wait."""
    return min(max(waited_s, _MIN_RETRY_S), _MAX_RETRY_S)


def check_request(request: GenerationRequest, *, vocab_size: int, max_model_len: int, max_choices: int) -> None:
    """Raise PromptTooLong or InvalidRequest, with the first field at fault, if the request can't be served."""
    num_prompt_tokens = len(request.prompt_token_ids)
    if num_prompt_tokens > max_model_len - 1:
        raise PromptTooLong("prompt", num_prompt_tokens, max_model_len - 1)
    faults = (
        *_prompt_faults(request, vocab_size, max_choices),
        *_stopping_faults(request.stopping),
        *_sampling_faults(request.sampling, vocab_size),
    )
    for field, message in faults:
        raise InvalidRequest(field, message)


def _prompt_faults(request: GenerationRequest, vocab_size: int, max_choices: int) -> Iterator[tuple[str, str]]:
    if not request.prompt_token_ids:
        yield "prompt", "the prompt is empty"
    elif min(request.prompt_token_ids) < 0 or max(request.prompt_token_ids) >= vocab_size:
        yield "prompt", f"a token id of the prompt is not below the vocabulary's size, {vocab_size}"
    if not 1 <= request.n <= max_choices:
        yield "n", f"n must be from 1 to {max_choices}, not {request.n}"
    for field in ("logprobs", "prompt_logprobs"):
        num_candidates = getattr(request, field)
        if num_candidates is not None and not 0 <= num_candidates <= MAX_LOGPROBS:
            yield field, f"{field} must be from 0 to {MAX_LOGPROBS}, not {num_candidates}"


def _stopping_faults(stopping: StopParams) -> Iterator[tuple[str, str]]:
    if stopping.max_tokens is not None and stopping.max_tokens < 1:
        yield "max_tokens", f"max_tokens must be at least 1, not {stopping.max_tokens}"
    if stopping.min_tokens < 0:
        yield "min_tokens", f"min_tokens must not be negative: {stopping.min_tokens}"
    if stopping.max_tokens is not None and stopping.min_tokens > stopping.max_tokens:
        yield "min_tokens", f"min_tokens ({stopping.min_tokens}) exceeds max_tokens ({stopping.max_tokens})"
    if "" in stopping.stop:
        yield "stop", "a stop string is empty"


def _sampling_faults(sampling: SamplingParams, vocab_size: int) -> Iterator[tuple[str, str]]:
    for field, is_good, bounds in (
        ("temperature", sampling.temperature >= 0, "at least 0"),
        ("top_k", sampling.top_k >= 0, "at least 0"),
        ("top_p", 0 < sampling.top_p <= 1, "above 0 and at most 1"),
        ("min_p", 0 <= sampling.min_p <= 1, "from 0 to 1"),
        ("typical_p", 0 < sampling.typical_p <= 1, "above 0 and at most 1"),
        ("repetition_penalty", sampling.repetition_penalty > 0, "above 0"),
        ("frequency_penalty", True, "a finite number"),
        ("presence_penalty", True, "a finite number"),
    ):
        value = getattr(sampling, field)
        if not is_good or not math.isfinite(value):
            yield field, f"{field} must be {bounds}, not {value}"
    for token_id, bias in sampling.logit_bias.items():
        if not 0 <= token_id < vocab_size:
            yield "logit_bias", f"token id {token_id} is not below the vocabulary's size, {vocab_size}"
        if not bias < math.inf:  # minus infinity forbids a token; infinity and NaN would void all others
            yield "logit_bias", f"the bias of token id {token_id} is {bias}"

"""Checks of a generation request before it is queued.

The caller passes the allowed ranges of parameters. The other checks need the engine's limits, or reject values that
would break a step and thereby every other request. Errors name values by their paths in `GenerationRequest`, and the
prompt by the client's field.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from service.generation.errors import InvalidRequest, PromptTooLong, UnsupportedConstraint
from service.generation.requests.parameters import Ranges, StopParams
from service.generation.requests.request import GenerationRequest


def check_request(
    request: GenerationRequest, *, ranges: Ranges, vocab_size: int, max_model_len: int, max_choices: int
) -> None:
    """Raise PromptTooLong or InvalidRequest with the first invalid field, if there is one."""
    num_prompt_tokens = len(request.prompt_token_ids)
    if num_prompt_tokens > max_model_len - 1:
        raise PromptTooLong(request.prompt_field, num_prompt_tokens, max_model_len - 1)
    faults = (
        *_prompt_faults(request, vocab_size),
        *_range_faults(request, ranges),
        *_choice_faults(request, max_choices),
        *_stopping_faults(request.stopping),
        *_token_faults(request, vocab_size),
    )
    for field, message in faults:
        raise InvalidRequest(field, message)


def check_limit(request: GenerationRequest, num_tokens: int, *, max_model_len: int) -> None:
    """Raise InvalidRequest if no answer within the request's limit and the context can match its output constraint.

    `num_tokens` is the length of the shortest match, including the reasoning that must precede it.
    """
    constraint, num_prompt_tokens = request.constraint, len(request.prompt_token_ids)
    if num_tokens >= max_model_len:
        field = constraint.grammar.field if constraint and constraint.grammar else request.prompt_field
        raise UnsupportedConstraint(
            field, f"the shortest answer that matches has {num_tokens} tokens; the model's context has {max_model_len}"
        )
    if num_prompt_tokens + num_tokens > max_model_len:
        raise PromptTooLong(request.prompt_field, num_prompt_tokens, max_model_len - num_tokens)
    limit = request.stopping.max_tokens
    if limit is not None and limit < num_tokens:
        message = f"must be at least {num_tokens} for this format (got {limit})"
        raise InvalidRequest(
            request.max_tokens_field, f"{message}; the shortest answer that matches has {num_tokens} tokens"
        )


def _prompt_faults(request: GenerationRequest, vocab_size: int) -> Iterator[tuple[str, str]]:
    if not request.prompt_token_ids:
        yield request.prompt_field, "the prompt is empty"
    elif min(request.prompt_token_ids) < 0 or max(request.prompt_token_ids) >= vocab_size:
        yield request.prompt_field, f"a token id of the prompt is not below the vocabulary's size, {vocab_size}"


def _range_faults(request: GenerationRequest, ranges: Ranges) -> Iterator[tuple[str, str]]:
    for path, allowed in ranges.items():
        for value in _values(request, path):
            if value not in allowed:
                yield path, f"{path.rpartition('.')[2]} must be {allowed}, not {value}"


def _values(request: GenerationRequest, path: str) -> Iterator[float]:
    """Yield the numbers at `path`. A mapping may have several, a missing value has none."""
    value: Any = request
    for name in path.split("."):
        value = getattr(value, name, None)
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, int | float):
        yield value


def _choice_faults(request: GenerationRequest, max_choices: int) -> Iterator[tuple[str, str]]:
    if not 1 <= request.n <= max_choices:
        yield "n", f"n must be at least 1 and at most {max_choices}, not {request.n}"


def _stopping_faults(stopping: StopParams) -> Iterator[tuple[str, str]]:
    for name, fault in stopping.contradictions():
        yield f"stopping.{name}", fault
    if "" in stopping.stop:
        yield "stopping.stop", "a stop string is empty"


def _token_faults(request: GenerationRequest, vocab_size: int) -> Iterator[tuple[str, str]]:
    """Yield the field and a message for each token of the sampling parameters that is invalid."""
    for name, values in request.sampling.token_values().items():
        field = f"sampling.{name}"
        for token_id, value in values.items():
            if not 0 <= token_id < vocab_size:
                yield field, f"token id {token_id} is not below the vocabulary's size, {vocab_size}"
            if not value < math.inf:  # minus infinity forbids a token; infinity and NaN would invalidate all others
                yield field, f"the value of token id {token_id} is {value}"
    for name, token_ids in request.sampling.token_lists().items():
        for token_id in token_ids:
            if not 0 <= token_id < vocab_size:
                yield f"sampling.{name}", f"token id {token_id} is not below the vocabulary's size, {vocab_size}"

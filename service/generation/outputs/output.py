"""The outputs of an engine, per choice.

They are named tuples because they carry each token of each stream between processes: named tuples pickle ten times as
fast as frozen dataclasses with slots.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple


class FinishReason(enum.Enum):
    """Why a choice ended."""

    END_OF_TEXT = "end_of_text"  # the model generated an end-of-text or stop token
    STOP_SEQUENCE = "stop_sequence"  # the text reached one of the request's stop strings
    LENGTH = "length"  # max_tokens or the model's context length, or a deadline that truncates
    TOOL_CALLS = "tool_calls"  # the text called tools and ended by itself; set by `service.output`, never by an engine


class TokenLogprob(NamedTuple):
    """A token and the natural logarithm of its probability in the model's unmodified distribution."""

    token_id: int
    logprob: float
    top: Sequence[tuple[int, float]] = ()  # (token id, logprob), most likely first


class Timings(NamedTuple):
    """Instants of one choice, of `time.monotonic()`, and its cost so far.

    `compute_s` is its share of the time of its steps, by tokens; `block_s` the number of cache blocks that it held,
    shared ones included, times seconds; `num_written_tokens` the prompt tokens that it added to the prefix cache. All
    are as of the newest step.
    """

    arrived: float
    scheduled: float | None
    first_token: float | None
    finished: float | None  # None until the last output
    num_preemptions: int = 0
    compute_s: float = 0.0
    block_s: float = 0.0
    num_written_tokens: int = 0


class GenerationOutput(NamedTuple):
    """The tokens and text that one or more steps added to one choice.

    `text` is the new text (empty while bytes or a possible stop string are held back), `token_ids` the new tokens,
    including the one that ended the text, `token_times` the instants at which they were sampled, and `logprobs`, if
    requested, one value per token. `text_ends` has, for each new token, the number of characters of the choice's tokens
    up to its end, including those held back; a token that does not complete a character, or is omitted from the text,
    adds none. The first output of choice 0 has the `prompt_logprobs`, if requested, from the prompt's second token on.
    Only the last output of a choice has a `finish_reason`.
    """

    choice_index: int
    token_ids: Sequence[int]
    token_times: Sequence[float]
    text: str
    timings: Timings
    batch_size: int  # sequences in the step that sampled the newest token, including this one
    text_ends: Sequence[int] = ()
    logprobs: Sequence[TokenLogprob] = ()
    prompt_logprobs: Sequence[TokenLogprob] = ()
    finish_reason: FinishReason | None = None
    stop_sequence: str | None = None  # the string that ended the text, with STOP_SEQUENCE
    num_cached_tokens: int = 0  # prompt tokens that were found in the cache
    request_index: int = 0  # among the requests that were opened together
    is_whole: bool = False  # between two of the request's output ends; it must not be merged with later outputs


class PrefillProgress(NamedTuple):
    """The progress of one prompt after a part of it was computed, on request.

    Instants are of `time.monotonic()`. `num_computed_tokens` includes the cached ones; it falls if the prompt is
    preempted, since it is then computed again.
    """

    request_index: int  # among the requests that were opened together
    num_computed_tokens: int
    num_cached_tokens: int
    scheduled: float  # the start of the prompt's first step
    now: float


def merged(outputs: Sequence[GenerationOutput]) -> GenerationOutput:
    """Return one output for several consecutive ones of a choice, in one pass, because there may be thousands."""
    last = outputs[-1]
    if len(outputs) == 1:
        return last
    return last._replace(
        token_ids=tuple(chain.from_iterable(output.token_ids for output in outputs)),
        token_times=tuple(chain.from_iterable(output.token_times for output in outputs)),
        text="".join(output.text for output in outputs),
        text_ends=tuple(chain.from_iterable(output.text_ends for output in outputs)),
        logprobs=tuple(chain.from_iterable(output.logprobs for output in outputs)),
        prompt_logprobs=tuple(chain.from_iterable(output.prompt_logprobs for output in outputs)),
    )

"""The outputs of an engine, choice by choice.

Named tuples, since each token of each stream crosses between processes in them: they pickle ten times as fast as frozen
dataclasses with slots.
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
    TOOL_CALLS = "tool_calls"  # the text called tools and ended by itself; never an engine's own word


class TokenLogprob(NamedTuple):
    """A token and the natural logarithm of its probability in the model's unmodified distribution."""

    token_id: int
    logprob: float
    top: Sequence[tuple[int, float]] = ()  # (token id, logprob), most likely first


class Timings(NamedTuple):
    """Where one choice's time went so far, in seconds. The four instants are of `time.monotonic()`.

    `compute_s` is its share of the steps that it was in, by tokens, `block_s` the time that it held cache blocks, each
    counted: those shared with others, too. Both are as of the newest step.
    """

    arrived: float
    scheduled: float | None
    first_token: float | None
    finished: float | None  # None while more may come
    num_preemptions: int = 0
    compute_s: float = 0.0
    block_s: float = 0.0


class GenerationOutput(NamedTuple):
    """What one or more steps added to one choice.

    `text` is the new text (may be empty while bytes or a possible stop string are held back), `token_ids` the new
    tokens, the one that ended the text included, `token_times` the instants at which they were sampled, and `logprobs`,
    where asked for, one value for each of them. `text_ends` has, for each new token, the number of characters that the
    choice's tokens make up to its end, those held back included; a token that has bytes of a character and doesn't end
    it adds none, nor does one that is left out of the text. The first output of choice 0 has the `prompt_logprobs`,
    where asked for: those of the prompt's second token and of all after it. The last output of a choice, and only that
    one, has a `finish_reason`.
    """

    choice_index: int
    token_ids: Sequence[int]
    token_times: Sequence[float]
    text: str
    timings: Timings
    batch_size: int  # sequences in the step that made the newest token, this one included
    text_ends: Sequence[int] = ()
    logprobs: Sequence[TokenLogprob] = ()
    prompt_logprobs: Sequence[TokenLogprob] = ()
    finish_reason: FinishReason | None = None
    stop_sequence: str | None = None  # the string that ended it, with STOP_SEQUENCE
    num_cached_tokens: int = 0  # prompt tokens whose cache entries were found, not computed
    request_index: int = 0  # among the requests that were opened together
    is_whole: bool = False  # from one of the request's cuts to the next, and not to be merged with what follows


def merged(outputs: Sequence[GenerationOutput]) -> GenerationOutput:
    """One output for several of the same choice, in their order; in one pass, since they may be thousands."""
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

"""The values that cross the engine's door: requests in, outputs out.

Owns plain immutable data. Any thread may build and read these; they know no torch, no protobuf and no text encoding.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class FinishReason(enum.Enum):
    """Why a choice ended."""

    END_OF_TEXT = "end_of_text"  # the model generated an end-of-text or stop token
    STOP_SEQUENCE = "stop_sequence"  # the text reached one of the request's stop strings
    LENGTH = "length"  # max_tokens or the model's context length, or a deadline that truncates


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. The defaults change nothing of the model's own distribution.

    `temperature` 0 is greedy. `top_k` 0 and `min_p` 0 and `typical_p` 1 are off. `seed` None draws one at admission.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0  # over prompt and generated tokens, as transformers defines it
    frequency_penalty: float = 0.0  # over generated tokens, as OpenAI defines it
    presence_penalty: float = 0.0  # over generated tokens, as OpenAI defines it
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    watermark: bool = False  # as `service.engine.watermark` says


@dataclass(frozen=True, slots=True)
class StopParams:
    """When a choice ends. `max_tokens` None means up to the model's context length."""

    max_tokens: int | None = None
    min_tokens: int = 0
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False


class Constraint(Protocol):
    """The state of one choice's output constraint (a grammar). Only the engine's thread calls it after admission."""

    def fill_mask(self, words: Any) -> None:
        """Write the allowed tokens into `words`, an int32 row of ceil(vocab_size / 32).

        Bit i of word w is token 32·w + i.
        """

    def accept(self, token_id: int) -> None:
        """Move on by a token that the mask allowed."""

    def is_finished(self) -> bool:
        """Whether nothing but the end of the text may follow."""

    def fork(self) -> Constraint:
        """A copy of its own for another choice of the same prompt."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt and what to do with it.

    `logprobs` None is off, 0 to 20 the number of candidates beside the sampled token. `prompt_logprobs` is the same for
    the prompt's own tokens; such a prompt is computed whole, whatever the cache has of it. `deadline` is a
    `time.monotonic()` instant in seconds. A lower `priority` value is served first. Requests share cached prompts only
    with requests of the same `cache_salt`. `skip_special_tokens` False shows control tokens in the text, for formats
    that write tool calls with them; the token that ends the text is never shown. `truncates_at_deadline` lets what the
    deadline cuts off end with LENGTH, in place of an error for all.
    """

    request_id: str
    prompt_token_ids: Sequence[int]
    sampling: SamplingParams = SamplingParams()
    stopping: StopParams = StopParams()
    n: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    constraint: Constraint | None = None
    deadline: float | None = None
    priority: int = 0
    cache_salt: str = ""
    skip_special_tokens: bool = True
    truncates_at_deadline: bool = False


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token and the natural logarithm of its probability in the model's unmodified distribution."""

    token_id: int
    logprob: float
    top: Sequence[tuple[int, float]] = ()  # (token id, logprob), most likely first


@dataclass(frozen=True, slots=True)
class Timings:
    """Where one choice's time went so far, in seconds. The four instants are of `time.monotonic()`."""

    arrived: float
    scheduled: float | None
    first_token: float | None
    finished: float | None  # None while more may come
    num_preemptions: int = 0


@dataclass(frozen=True, slots=True)
class GenerationOutput:
    """What one or more steps added to one choice.

    `text` is the new text (may be empty while bytes or a possible stop string are held back), `token_ids` the new
    tokens, the one that ended the text included, `token_times` the instants at which they were sampled, and `logprobs`,
    where asked for, one value for each of them. The first output of choice 0 has the `prompt_logprobs`, where asked
    for: those of the prompt's second token and of all after it. The last output of a choice, and only that one, has a
    `finish_reason`.
    """

    choice_index: int
    token_ids: Sequence[int]
    token_times: Sequence[float]
    text: str
    timings: Timings
    batch_size: int  # sequences in the step that made the newest token, this one included
    logprobs: Sequence[TokenLogprob] = ()
    prompt_logprobs: Sequence[TokenLogprob] = ()
    finish_reason: FinishReason | None = None
    stop_sequence: str | None = None  # the string that ended it, with STOP_SEQUENCE
    num_cached_tokens: int = 0  # prompt tokens whose cache entries were found, not computed
    request_index: int = 0  # among the requests that were opened together


@dataclass(frozen=True, slots=True)
class EngineStats:
    """The state of the engine after a step. The `num_` fields of the second group only ever grow."""

    num_waiting: int = 0  # sequences that wait for blocks or for their turn, preempted ones included
    num_running: int = 0
    num_blocks: int = 0
    num_free_blocks: int = 0  # cached ones included: they are given up when space is needed
    num_cached_blocks: int = 0  # free, but still good for a prompt that begins alike
    step_time_s: float = 0.0  # of the last step
    step_tokens: int = 0  # computed in the last step
    step_sequences: int = 0  # of which they are

    num_steps: int = 0
    num_preemptions: int = 0
    num_computed_tokens: int = 0
    num_generated_tokens: int = 0
    num_prefix_query_tokens: int = 0  # prompt tokens that were looked up in the cache
    num_prefix_hit_tokens: int = 0  # those that were found

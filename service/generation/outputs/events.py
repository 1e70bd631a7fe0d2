"""The events of an answer, the same for every kind of request.

A stream consists of `Started`, a `Tokens` per output of the engine followed by the events that were read from it, a
`ChoiceFinished` per choice, `Usage`, and `Completed`; a stream that fails ends after `Usage`. `PromptProgress`, on
request, may stand anywhere between `Started` and the first tokens of the last prompt. Choices are numbered over
all prompts of a request: choice c of n of prompt p has the index p·n + c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from service.generation.outputs.output import FinishReason, Timings
from service.generation.prompts.conversation import ReasoningEffort
from service.generation.requests.parameters import SamplingParams, StopParams


@dataclass(frozen=True, slots=True)
class Started:
    """The request was admitted. `sampling` and `stopping` have the effective values, `n` is the choices per prompt.

    `prompt_texts` has the text of each prompt, if requested, `prompt_token_ids` the tokens of each. `reasoning_effort`
    is the effective one; None for a model that can't reason, or whose template decides. `load_wait_s` is the time that
    the request waited for its model to be loaded.
    """

    id: str
    created_ns: int  # since the epoch
    model: str
    model_version: str
    fingerprint: str
    sampling: SamplingParams
    stopping: StopParams
    n: int = 1
    num_prompts: int = 1
    prompt_texts: Sequence[str] = ()
    prompt_token_ids: Sequence[Sequence[int]] = ()
    reasoning_effort: ReasoningEffort | None = None
    load_wait_s: float = 0.0

    @property
    def num_prompt_tokens(self) -> int:
        """The number of tokens of all prompts."""
        return sum(map(len, self.prompt_token_ids))


class Tokens(NamedTuple):
    """The tokens of one output, which the events after it are read from."""

    choice_index: int
    token_ids: Sequence[int]
    token_times: Sequence[float]
    timings: Timings
    batch_size: int
    num_cached_tokens: int = 0  # of all prompts, as far as they have started


class DecodedLogprob(NamedTuple):
    """A token with its bytes, the natural logarithm of its probability, and the most likely alternatives."""

    token_id: int
    data: bytes
    logprob: float
    top: Sequence[DecodedLogprob] = ()


class PromptProgress(NamedTuple):
    """The progress of all prompts, on request. It is no part of the answer: it has no number in the stream."""

    total_tokens: int
    cached_tokens: int
    processed_tokens: int  # including the cached ones
    elapsed_s: float  # since the computation of the first prompt began


class PromptLogprobs(NamedTuple):
    """The logprobs of a prompt's tokens. The first token, which has no context, has 0."""

    prompt_index: int
    logprobs: Sequence[DecodedLogprob]


class Text(NamedTuple):
    """More of a choice's content. `text` is empty if only logprobs of content that was sent before are new."""

    choice_index: int
    text: str
    logprobs: Sequence[DecodedLogprob] = ()
    start: int = 0  # index of the first character in everything that the choice has generated


class Reasoning(NamedTuple):
    """More of a choice's reasoning."""

    choice_index: int
    text: str


class ToolCall(NamedTuple):
    """The beginning of a choice's call number `call_index`."""

    choice_index: int
    call_index: int
    id: str  # parsers leave it empty; the choice's reader sets it
    name: str


class ToolArguments(NamedTuple):
    """More of a call's arguments."""

    choice_index: int
    call_index: int
    text: str


Delta: TypeAlias = Text | Reasoning | ToolCall | ToolArguments  # the events that are read from a choice's text


class ChoiceFinished(NamedTuple):
    """The end of a choice."""

    choice_index: int
    reason: FinishReason
    stop_sequence: str | None = None


class Usage(NamedTuple):
    """The tokens of a request so far, over all prompts and choices."""

    prompt_tokens: int
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    image_tokens: int = 0


class Completed(NamedTuple):
    """The end of a complete answer. `ended_ns` is its time since the epoch; 0 if unknown.

    `receipt` is empty unless it was requested.
    """

    ended_ns: int = 0
    receipt: str = ""


Event: TypeAlias = (
    Started
    | PromptProgress
    | Tokens
    | PromptLogprobs
    | Text
    | Reasoning
    | ToolCall
    | ToolArguments
    | ChoiceFinished
    | Usage
    | Completed
)

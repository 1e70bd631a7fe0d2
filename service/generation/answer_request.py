"""A request for an answer, of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.generation.conversation import Prompt
from service.generation.output_format import OutputFormat
from service.generation.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.resume import ResumePoint


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """Prompts to answer, and how.

    `model` is a model's name or an endpoint's; `deployment` one of that endpoint's entities, empty for one by traffic;
    `model_version` the version asked for, empty for any. `prompts_field` is what the request calls all its prompts,
    `max_tokens_field` how it calls the largest number of an answer's tokens.
    `given` names the fields of `sampling` that the request gives; others are the model's own, where it has any.
    `truncates` serves as much as possible of what can't be served whole: a prompt that is too long is cut, and what the
    deadline cuts off ends with LENGTH. `skip_special_tokens` False shows control tokens in the text.
    `wants_prompt_texts` asks for the text of each prompt. `resume` is where a stream broke that is to go on; None for a
    new answer.
    """

    model: str
    prompts: Sequence[Prompt]
    prompts_field: str
    max_tokens_field: str = "stopping.max_tokens"
    deployment: str = ""
    model_version: str = ""
    sampling: SamplingParams = SamplingParams()  # noqa: RUF009  immutable
    given: frozenset[str] = frozenset()
    stopping: StopParams = StopParams()  # noqa: RUF009  immutable
    n: int = 1
    logprobs: LogprobsOptions | None = None
    prompt_logprobs: LogprobsOptions | None = None
    output_format: OutputFormat | None = None
    skip_special_tokens: bool = True
    priority: int = 0
    cache_salt: str = ""
    truncates: bool = False
    wants_prompt_texts: bool = False
    resume: ResumePoint | None = None

"""A request for an answer, of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.generation.formats.output_format import OutputFormat
from service.generation.prompts.conversation import Prompt
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.resume import ResumePoint
from service.generation.service_level import BATCH, ServiceLevel


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """Prompts to answer, with the parameters of the answers."""

    model: str  # the name of a model or an endpoint
    prompts: Sequence[Prompt]
    prompts_field: str  # the client's name of the prompts, for errors
    max_tokens_field: str = "stopping.max_tokens"  # the client's name of the token limit, for errors
    deployment: str = ""  # an entity of the endpoint; empty to select one by traffic
    model_version: str = ""  # the required version; empty for any
    sampling: SamplingParams = SamplingParams()  # noqa: RUF009  immutable
    given: frozenset[str] = frozenset()  # fields of `sampling` that the request sets; others are the model's
    stopping: StopParams = StopParams()  # noqa: RUF009  immutable
    n: int = 1
    logprobs: LogprobsOptions | None = None
    prompt_logprobs: LogprobsOptions | None = None
    output_format: OutputFormat | None = None
    skip_special_tokens: bool = True  # False keeps control tokens in the text
    priority: int = 0
    service_level: ServiceLevel = BATCH  # missing limits are those of the caller
    cache_salt: str = ""
    truncates: bool = False  # cut a prompt that is too long, and end with LENGTH at the deadline
    separates_tokens: bool = False  # each token of a stream is a separate output
    reports_progress: bool = False  # whether a stream has the progress of its prompts
    wants_receipt: bool = False  # whether `Completed` has a receipt; a deadline then never ends the answer
    keep_s: float | None = None  # how long the model stays in memory without requests; None: the default
    wants_prompt_texts: bool = False  # whether `Started` has the text of each prompt
    answer_id: str = ""  # 32 hexadecimal digits; empty for a new id
    resume: ResumePoint | None = None  # the position at which a broken stream is resumed; None for a new answer

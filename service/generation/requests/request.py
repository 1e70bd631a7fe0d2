"""One prompt for an engine, with its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from service.generation.formats.constraint import Constraint
from service.generation.prompts.image import PromptImage
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.service_level import BATCH, ServiceLevel

PROGRESS_INTERVAL_S: Final = 0.1  # between two reports of a request's progress; a bar on a screen needs no more


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt and the parameters of its answers.

    Requests share cached prompts only with requests of the same `cache_group`, `cache_salt` and `adapter`.
    """

    request_id: str
    prompt_token_ids: Sequence[int]
    sampling: SamplingParams = SamplingParams()  # noqa: RUF009  immutable
    stopping: StopParams = StopParams()  # noqa: RUF009  immutable
    n: int = 1  # choices
    logprobs: LogprobsOptions | None = None
    prompt_logprobs: LogprobsOptions | None = None  # of the prompt's tokens, which are then computed without the cache
    constraint: Constraint | None = None
    deadline: float | None = None  # time.monotonic(), which all processes of a machine share
    caller_id: str = ""  # the key that the request is queued and charged under
    weight: float = 1.0  # of the key's share of the engine, > 0
    priority: int = 0  # among requests of one key, lower values first
    service_level: ServiceLevel = BATCH  # the latency that the scheduler keeps to
    is_batch: bool = False  # whether it yields to all requests that are not of batches
    cache_group: str = ""
    cache_salt: str = ""
    adapter: str = ""
    skip_special_tokens: bool = True  # False keeps control tokens in the text, for tool calls in them
    truncates_at_deadline: bool = False  # whether the deadline ends the answer with LENGTH instead of an error
    prompt_field: str = "prompt"  # the client's name of the prompt, for errors
    max_tokens_field: str = "stopping.max_tokens"  # the client's name of the token limit, for errors
    output_ends: Mapping[int, Sequence[int]] = field(default_factory=dict)  # by choice: numbers of tokens
    separates_tokens: bool = False  # each token after the last output end is a separate output
    reports_progress: bool = False  # whether the progress of the prompt is reported
    images: Sequence[PromptImage] = ()  # of the prompt, in its order

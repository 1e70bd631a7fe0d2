"""One prompt for an engine, with its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.generation.constraint import Constraint
from service.generation.image import PromptImage
from service.generation.parameters import LogprobsOptions, SamplingParams, StopParams


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt and what to do with it.

    `prompt_field` is the caller's name of the prompt, for errors. `prompt_logprobs` are those of the prompt's own
    tokens; such a prompt is computed whole, whatever the cache has of it. `deadline` is a `time.monotonic()` instant in
    seconds, which all processes of a machine share. `caller_id` is the key that the request counts for in the queue,
    `weight` that key's part of what several compete for, above 0. Among requests of one key a lower `priority` value is
    served first. Requests share cached prompts only with requests of the same `cache_group`, `cache_salt` and
    `adapter`; the name of an adapter is kept for engines that have any. `skip_special_tokens` False shows control
    tokens in the text, for formats that write tool calls with them; the token that ends the text is shown only where
    `stopping` includes it.
    `truncates_at_deadline` lets what the deadline cuts off end with LENGTH, in place of an error for all.
    `max_tokens_field` is what the caller calls the largest number of tokens, for errors.
    `cuts` are numbers of tokens in rising order, by choice: up to the last of them, outputs go from one to the next.
    `images` are those of the prompt in its order, for a model that takes images.
    """

    request_id: str
    prompt_token_ids: Sequence[int]
    sampling: SamplingParams = SamplingParams()  # noqa: RUF009  immutable
    stopping: StopParams = StopParams()  # noqa: RUF009  immutable
    n: int = 1
    logprobs: LogprobsOptions | None = None
    prompt_logprobs: LogprobsOptions | None = None
    constraint: Constraint | None = None
    deadline: float | None = None
    caller_id: str = ""
    weight: float = 1.0
    priority: int = 0
    cache_group: str = ""
    cache_salt: str = ""
    adapter: str = ""
    skip_special_tokens: bool = True
    truncates_at_deadline: bool = False
    prompt_field: str = "prompt"
    max_tokens_field: str = "stopping.max_tokens"
    cuts: Mapping[int, Sequence[int]] = field(default_factory=dict)
    images: Sequence[PromptImage] = ()

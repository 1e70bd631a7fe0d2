"""Turn a client's request into the engine's request, for one served model.

`prepare` is called on the event loop; `prompt_encoder` runs the slow parts on worker threads.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.caller import ANONYMOUS, Caller
from service.generation.prompts.conversation import (
    Conversation,
    ReasoningEffort,
)
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from service.generation.service_level import BATCH
from service.output.answers.choice import AnswerForm
from service.prompting.chat_model import ChatModel
from service.prompting.prompt_encoder import PromptEncoder
from service.prompting.sampling_defaults import SamplingDefaults
from service.prompts.preparing.priority import check_priority
from service.prompts.preparing.workers import Workers
from service.prompts.tokens.detokenization import check_token
from service.prompts.tokens.text_length import most_bytes_per_token
from service.prompts.tokens.truncation import PromptBudget

if TYPE_CHECKING:  # few models take images, and the image reader takes long to import
    from service.images.reader import ImageReader

# The part of the time before a call's deadline that is reserved to end a truncated answer and to send it, because gRPC
# cancels the call exactly at its deadline.
_MIN_MARGIN_S = 0.2
_MAX_MARGIN_S = 1.0
_MARGIN = 0.1


@dataclass(frozen=True, slots=True)
class PreparedAnswer:
    """The engine's requests for one client request, opened together, and how the answers to each prompt are parsed.

    `sampling` and `stopping` have all defaults filled in; `max_tokens` is that of the shortest prompt. `prompt_texts`
    are empty unless they were requested. `reasoning_effort` is the effort in force, if there is any.
    """

    requests: Sequence[GenerationRequest]
    forms: Sequence[AnswerForm]
    sampling: SamplingParams
    stopping: StopParams
    prompt_texts: Sequence[str] = ()
    reasoning_effort: ReasoningEffort | None = None


class Preparation:
    """Prepares the requests of one served model."""

    def __init__(
        self,
        model: str,
        tokenizer: Tokenizer,
        max_model_len: int,
        chat: ChatModel | None,
        workers: Workers,
        *,
        adapter: str = "",
        images: ImageReader | None = None,
        sampling_defaults: SamplingDefaults | None = None,
    ) -> None:
        """`chat` is None for a model without a chat template, which continues raw prompts only.

        `adapter` is the name of the engine's adapter for the requests, if any. `images` is None for a model that takes
        no images. `sampling_defaults` apply to the values that a request omits.
        """
        self.chat = chat
        self.tokenizer = tokenizer
        self.max_model_len = max_model_len  # changes if the model's first load leaves too little memory for its cache
        self._bytes_per_token = most_bytes_per_token(tokenizer)
        self._workers = workers
        self._adapter = adapter
        self._images = images
        self._sampling_defaults = sampling_defaults or {}
        self._encoder = PromptEncoder(model, tokenizer, chat, workers, images)

    @property
    def sampling_defaults(self) -> SamplingDefaults:
        """The sampling parameters that the model recommends."""
        return self._sampling_defaults

    def with_adapter(self, model: str, adapter: str) -> Preparation:
        """Return the preparation for one of the model's adapters, which clients call `model`; it shares the threads."""
        return Preparation(
            model,
            self.tokenizer,
            self.max_model_len,
            self.chat,
            self._workers,
            adapter=adapter,
            images=self._images,
            sampling_defaults=self._sampling_defaults,
        )

    def close(self) -> None:
        """Stop the worker threads; no request may be prepared afterwards."""
        self._workers.close()
        if self._images is not None:
            self._images.close()

    async def prepare(
        self, request: AnswerRequest, request_id: str, deadline: float | None = None, caller: Caller = ANONYMOUS
    ) -> PreparedAnswer:
        """Return a `caller`'s request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

        Raise InvalidRequest, or a subclass of it, with the field's name, EngineOverloaded, or DeadlineExceeded.
        """
        check_priority(request.priority, caller)
        budget = PromptBudget(self.max_model_len, request.stopping.max_tokens, request.truncates, self._bytes_per_token)
        encoded = await self._encoder.encode(request, budget, deadline)
        self._check_tokens(request)
        parameters: dict[str, Any] = {
            name: value for name, value in self._sampling_defaults.items() if name not in request.given
        }
        sampling = replace(request.sampling, **parameters).with_seed(
            request.resume.identity.seed if request.resume else None
        )
        # The end of an answer that a deadline cuts off depends on the time, so it could not be computed again.
        is_cut_off = request.truncates and not request.wants_receipt
        runs_until = _end_of_truncated(deadline) if is_cut_off and deadline is not None else deadline
        requests = [
            GenerationRequest(
                request_id=request_id,
                prompt_token_ids=prompt.token_ids,
                # Prompts without a seed get different seeds, so that the same prompt twice gets two answers.
                sampling=sampling if request.sampling.seed is not None else sampling.with_next_seed(index),
                stopping=self._stopping(request.stopping, prompt.token_ids),
                n=request.n,
                logprobs=request.logprobs,
                prompt_logprobs=request.prompt_logprobs,
                constraint=prompt.constraint,
                deadline=runs_until,
                caller_id=caller.id,
                weight=caller.weight,
                is_batch=caller.is_batch,
                priority=request.priority,
                service_level=BATCH if caller.is_batch else request.service_level.or_else(caller.service_level),
                cache_group=cache_group(caller),
                cache_salt=request.cache_salt,
                adapter=self._adapter,
                skip_special_tokens=request.skip_special_tokens and not prompt.shows_special_tokens,
                truncates_at_deadline=is_cut_off,
                separates_tokens=request.separates_tokens,
                reports_progress=request.reports_progress,
                prompt_field=request.prompts[index].field,
                max_tokens_field=request.max_tokens_field,
                images=prompt.images,
            )
            for index, prompt in enumerate(encoded)
        ]
        longest = max(requests, key=lambda engine_request: engine_request.stopping.max_tokens or 0)
        texts = [prompt.text for prompt in encoded] if request.wants_prompt_texts else ()
        forms = [prompt.form for prompt in encoded]
        return PreparedAnswer(requests, forms, sampling, longest.stopping, texts, encoded[0].effort)

    async def tokens(
        self, conversation: Conversation, deadline: float | None = None, workers: Workers | None = None
    ) -> Sequence[int]:
        """Return the tokens of a conversation's prompt, which may exceed the context. Raise the errors of `prepare`.

        `workers` are the threads that render it, by default those of requests for answers.
        """
        return await self._encoder.tokens(conversation, deadline, workers)

    def _check_tokens(self, request: AnswerRequest) -> None:
        """Raise InvalidRequest if parameters contain tokens that the model doesn't have."""
        for name, values in request.sampling.token_values().items():
            for token_id in values:
                check_token(token_id, f"sampling.{name}[{token_id}]", self.tokenizer.vocab_size)
        for name, token_ids in request.sampling.token_lists().items():
            for index, token_id in enumerate(token_ids):
                check_token(token_id, f"sampling.{name}[{index}]", self.tokenizer.vocab_size)
        for name in ("logprobs", "prompt_logprobs"):
            options: LogprobsOptions | None = getattr(request, name)
            for index, token_id in enumerate(options.token_ids if options is not None else ()):
                check_token(token_id, f"{name}.token_ids[{index}]", self.tokenizer.vocab_size)
        for index, token_id in enumerate(request.stopping.stop_token_ids):
            check_token(token_id, f"stopping.stop_token_ids[{index}]", self.tokenizer.vocab_size)

    def _stopping(self, given: StopParams, token_ids: Sequence[int]) -> StopParams:
        """Return `given` with `max_tokens`, limited by the number of tokens left in the context."""
        num_left = self.max_model_len - len(token_ids)
        return replace(given, max_tokens=num_left if given.max_tokens is None else min(given.max_tokens, num_left))


def cache_group(caller: Caller) -> str:
    """Return the name of the group whose cached prompts a request may use; it never equals a key's own name."""
    return f"group {caller.cache_group}" if caller.cache_group else f"key {caller.id}"


def _end_of_truncated(deadline: float) -> float:
    """Return the time at which an answer that truncates ends, a little before the call's deadline."""
    left_s = max(0.0, deadline - time.monotonic())
    return deadline - min(left_s / 2, max(_MIN_MARGIN_S, min(_MARGIN * left_s, _MAX_MARGIN_S)))

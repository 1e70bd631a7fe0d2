"""Read an engine's outputs as the events of the answers to all prompts of a request."""

from __future__ import annotations

from collections.abc import Sequence

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.outputs.events import Event, PromptLogprobs, Tokens, Usage
from service.generation.outputs.output import FinishReason, GenerationOutput
from service.generation.requests.request import GenerationRequest
from service.output.answers.choice import AnswerForm, ChoiceReader
from service.output.tokens.logprobs import decode_prompt_logprobs


class AnswerReader:
    """Reads the outputs of requests that were opened together as one stream of events."""

    def __init__(
        self,
        requests: Sequence[GenerationRequest],
        forms: Sequence[AnswerForm],
        tokenizer: Tokenizer,
        *,
        answer_id: str = "",
    ) -> None:
        """`forms` has the form of each request's answer. All requests have the same number of choices."""
        self._requests = requests
        self._tokenizer = tokenizer
        self._n = requests[0].n
        self._num_cached_tokens = [0] * len(requests)
        self._reported_cached: set[int] = set()  # prompts whose cached tokens an earlier stream has reported
        self._has_prompt_logprobs = [request.prompt_logprobs is None for request in requests]
        self._choices = [
            ChoiceReader(
                prompt_index * self._n + choice_index,
                tokenizer,
                form,
                hidden_ids=tokenizer.special_token_ids if request.skip_special_tokens else frozenset(),
                with_logprobs=request.logprobs is not None,
                answer_id=answer_id,
            )
            for prompt_index, (request, form) in enumerate(zip(requests, forms, strict=True))
            for choice_index in range(self._n)
        ]

    def read(self, output: GenerationOutput) -> list[Event]:
        """Return the events of the engine's next output."""
        prompt_index = output.request_index
        choice_index = prompt_index * self._n + output.choice_index
        if prompt_index not in self._reported_cached:
            before = self._num_cached_tokens[prompt_index]
            self._num_cached_tokens[prompt_index] = max(before, output.num_cached_tokens)
        events: list[Event] = [
            Tokens(
                choice_index,
                output.token_ids,
                output.token_times,
                output.timings,
                output.batch_size,
                self.num_cached_tokens,
            )
        ]
        if not self._has_prompt_logprobs[prompt_index]:
            # The caller passes the first output of a prompt's first choice before those of its other choices.
            self._has_prompt_logprobs[prompt_index] = True
            token_ids = self._requests[prompt_index].prompt_token_ids
            found = decode_prompt_logprobs(self._tokenizer, token_ids, output.prompt_logprobs)
            events.append(PromptLogprobs(prompt_index, found))
        return events + self._choices[choice_index].read(output)

    @property
    def num_cached_tokens(self) -> int:
        """The number of tokens of all prompts so far that were found in the cache."""
        return sum(self._num_cached_tokens)

    def report_cached(self, prompt_indices: Sequence[int], num_tokens: int) -> None:
        """Report `num_tokens` cached tokens for these prompts together, regardless of how many are found now."""
        self._reported_cached.update(prompt_indices)
        if prompt_indices:
            self._num_cached_tokens[prompt_indices[0]] = num_tokens

    def usage(self) -> Usage:
        """Return the usage of the outputs so far."""
        return Usage(
            prompt_tokens=sum(len(request.prompt_token_ids) for request in self._requests),
            completion_tokens=sum(choice.num_tokens for choice in self._choices),
            reasoning_tokens=sum(choice.num_reasoning_tokens for choice in self._choices),
            cached_tokens=self.num_cached_tokens,
        )

    def finish_reasons(self) -> list[FinishReason]:
        """Return the finish reasons of the choices that have ended, in the order of their indices."""
        return [choice.finish_reason for choice in self._choices if choice.finish_reason is not None]

"""The answers to all prompts of a request, read from an engine's outputs."""

from __future__ import annotations

from collections.abc import Sequence

from service.engine.tokenizer import Tokenizer
from service.generation.events import Event, PromptLogprobs, Tokens, Usage
from service.generation.output import FinishReason, GenerationOutput
from service.generation.request import GenerationRequest
from service.output.choice import AnswerForm, ChoiceReader
from service.output.logprobs import spelled_prompt_logprobs


class AnswerReader:
    """Turns the outputs of requests that were opened together into one stream of events."""

    def __init__(
        self,
        requests: Sequence[GenerationRequest],
        forms: Sequence[AnswerForm],
        tokenizer: Tokenizer,
        *,
        answer_id: str = "",
    ) -> None:
        """`forms` has one for each of `requests`, which all have the same number of choices."""
        self._requests = requests
        self._tokenizer = tokenizer
        self._n = requests[0].n
        self._num_cached_tokens = [0] * len(requests)
        self._reported_cached: set[int] = set()  # prompts whose cached tokens were reported before
        self._has_prompt_logprobs = [request.prompt_logprobs is None for request in requests]
        self._choices = [
            ChoiceReader(
                prompt_index * self._n + place,
                tokenizer,
                form,
                hidden_ids=tokenizer.special_token_ids if request.skip_special_tokens else frozenset(),
                with_logprobs=request.logprobs is not None,
                answer_id=answer_id,
            )
            for prompt_index, (request, form) in enumerate(zip(requests, forms, strict=True))
            for place in range(self._n)
        ]

    def read(self, output: GenerationOutput) -> list[Event]:
        """The events of the engine's next output."""
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
            # The first output of a prompt's first choice comes before any of its other choices'.
            self._has_prompt_logprobs[prompt_index] = True
            token_ids = self._requests[prompt_index].prompt_token_ids
            found = spelled_prompt_logprobs(self._tokenizer, token_ids, output.prompt_logprobs)
            events.append(PromptLogprobs(prompt_index, found))
        return events + self._choices[choice_index].read(output)

    @property
    def num_cached_tokens(self) -> int:
        """Tokens of all prompts that were found in the cache, as far as it is known."""
        return sum(self._num_cached_tokens)

    def report_cached(self, prompt_indices: Sequence[int], num_tokens: int) -> None:
        """Take these prompts to have had so many cached tokens together, however many are found now."""
        self._reported_cached.update(prompt_indices)
        if prompt_indices:
            self._num_cached_tokens[prompt_indices[0]] = num_tokens

    def usage(self) -> Usage:
        """What the outputs so far cost."""
        return Usage(
            prompt_tokens=sum(len(request.prompt_token_ids) for request in self._requests),
            completion_tokens=sum(choice.num_tokens for choice in self._choices),
            reasoning_tokens=sum(choice.num_reasoning_tokens for choice in self._choices),
            cached_tokens=self.num_cached_tokens,
        )

    def finish_reasons(self) -> list[FinishReason]:
        """Why choices ended, those that did, in the order of their index."""
        return [choice.finish_reason for choice in self._choices if choice.finish_reason is not None]

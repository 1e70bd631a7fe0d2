"""The tokens and text of a choice that are not reported yet.

Tokens are decoded when they are reported, many at a time. If a stop string may end the choice, each token is decoded
when it is sampled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from service.engine.core.sequences.detokenizer import Detokenizer
from service.engine.tokens.tokenizer import Vocabulary
from service.generation.outputs.output import FinishReason, GenerationOutput, Timings, TokenLogprob
from service.generation.requests.request import GenerationRequest


class PendingOutput:
    """The tokens of one choice in the order of sampling. The tokens between two output ends become an output.

    If the request separates tokens, each token after the last output end does, too.
    """

    def __init__(
        self,
        request: GenerationRequest,
        tokenizer: Vocabulary,
        *,
        choice_index: int,
        request_index: int,
        num_open_tokens: int,
    ) -> None:
        """`request_index` is the request's among those that were opened together.

        No stop string ends the choice within the first `num_open_tokens` tokens.
        """
        stopping = request.stopping
        self._detokenizer = Detokenizer(
            tokenizer,
            stopping.stop,
            num_open_tokens=num_open_tokens,
            skip_special_tokens=request.skip_special_tokens,
            includes_stop=stopping.include_stop_str_in_output,
        )
        self._output_ends = deque(request.output_ends.get(choice_index, ()))  # numbers of generated tokens
        self._choice_index = choice_index
        self._request_index = request_index
        self._decodes_immediately = bool(stopping.stop)
        self._separates_tokens = request.separates_tokens
        self._num_reported = 0  # tokens
        self._token_ids: list[int] = []
        self._times: list[float] = []
        self._logprobs: list[TokenLogprob] = []
        self._prompt_logprobs: tuple[TokenLogprob, ...] = ()
        self._batch_size = 0  # of the step that sampled the newest token
        self._hides_last = False
        self._texts: list[str] = []  # the text of each token, if it is decoded immediately,
        self._ends: list[int] = []  # and the number of characters up to its end

    @property
    def stop_sequence(self) -> str | None:
        """The stop string that has ended the text, or None."""
        return self._detokenizer.stop_sequence

    def add(self, token_id: int, now: float, logprob: TokenLogprob | None, batch_size: int, *, is_text: bool) -> None:
        """Append a token. If `is_text` is False, it is left out of the text, which only the last token may be."""
        self._token_ids.append(token_id)
        self._times.append(now)
        self._batch_size = batch_size
        if logprob is not None:
            self._logprobs.append(logprob)
        if self._decodes_immediately:
            self._texts.append(self._detokenizer.append(token_id) if is_text else "")
            self._ends.append(self._detokenizer.num_characters)
        elif not is_text:
            self._hides_last = True

    def add_prompt_logprobs(self, logprobs: Collection[TokenLogprob]) -> None:
        """Add the prompt's logprobs to the next output."""
        self._prompt_logprobs = tuple(logprobs)

    def take(
        self, timings: Timings, num_cached_tokens: int, finish_reason: FinishReason | None
    ) -> list[GenerationOutput]:
        """Return the output that can be reported now: one, or one per output end up to the last one.

        `finish_reason` is set if the choice has ended; its last output then has all text that was held back, unless a
        stop string has ended it.
        """
        outputs = []
        is_finished = finish_reason is not None
        num_generated = self._num_reported + len(self._token_ids)
        while (output_end := self._next_end()) is not None and output_end + is_finished <= num_generated:
            num_tokens = output_end - self._num_reported
            if self._output_ends:
                self._output_ends.popleft()
            unfinished = timings._replace(finished=None)
            outputs.append(self._output(num_tokens, unfinished, num_cached_tokens, None, is_whole=True))
        if finish_reason is not None:
            is_whole = self._next_end() is not None
            outputs.append(
                self._output(len(self._token_ids), timings, num_cached_tokens, finish_reason, is_whole=is_whole)
            )
            self._output_ends.clear()
        elif self._token_ids and self._next_end() is None:
            outputs.append(self._output(len(self._token_ids), timings, num_cached_tokens, None, is_whole=False))
        return outputs

    def _next_end(self) -> int | None:
        """Return the number of tokens at which the next output ends, or None if it is left open."""
        if self._output_ends:
            return self._output_ends[0]
        return self._num_reported + 1 if self._separates_tokens else None

    def _output(
        self,
        num_tokens: int,
        timings: Timings,
        num_cached_tokens: int,
        finish_reason: FinishReason | None,
        *,
        is_whole: bool,
    ) -> GenerationOutput:
        """Remove the first tokens and return their output. They end the choice if there is a finish reason."""
        token_ids = tuple(self._token_ids[:num_tokens])
        text, ends = self._decode(token_ids)
        times, logprobs = tuple(self._times[:num_tokens]), tuple(self._logprobs[:num_tokens])
        prompt_logprobs, self._prompt_logprobs = self._prompt_logprobs, ()
        stop_sequence = None
        if finish_reason is not None:
            stop_sequence = self.stop_sequence
            if stop_sequence is None:
                text += self._detokenizer.flush()
        self._num_reported += num_tokens
        for each in (self._token_ids, self._times, self._texts, self._ends, self._logprobs):
            del each[:num_tokens]
        return GenerationOutput(
            choice_index=self._choice_index,
            token_ids=token_ids,
            token_times=times,
            text=text,
            timings=timings,
            batch_size=self._batch_size,
            text_ends=ends,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
            finish_reason=finish_reason,
            stop_sequence=stop_sequence,
            num_cached_tokens=num_cached_tokens,
            request_index=self._request_index,
            is_whole=is_whole,
        )

    def _decode(self, token_ids: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """Return the text of the first tokens, and the number of characters up to the end of each."""
        if self._decodes_immediately:
            return "".join(self._texts[: len(token_ids)]), tuple(self._ends[: len(token_ids)])
        if self._hides_last and len(token_ids) == len(self._token_ids):
            text, ends = self._detokenizer.extend(token_ids[:-1])
            return text, (*ends, self._detokenizer.num_characters)
        return self._detokenizer.extend(token_ids)

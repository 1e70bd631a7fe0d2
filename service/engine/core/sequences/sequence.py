"""One choice of a request, and the group of all choices of a request.

A sequence holds its tokens, cache blocks, text and finish reason. Only the engine's thread updates it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection

from service.engine.core.sequences.choice_seed import choice_seed
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.core.sequences.pending_output import PendingOutput
from service.engine.core.sequences.sequence_cost import SequenceCost
from service.engine.core.sequences.sequence_state import SequenceState
from service.engine.tokens.tokenizer import Vocabulary
from service.generation.errors import ConstraintFailed
from service.generation.outputs.output import FinishReason, GenerationOutput, PrefillProgress, Timings, TokenLogprob
from service.generation.requests.request import PROGRESS_INTERVAL_S, GenerationRequest

NO_BLOCK = -1  # in a block table: the block was given back, because no later token attends to its tokens
_USED = 0.95  # of a limit per token: the times of steps vary


class SequenceGroup:
    """The choices of one request, in the order of their indices. An error ends all of them."""

    def __init__(
        self,
        request: GenerationRequest,
        tokenizer: Vocabulary,
        *,
        serial: int,
        seed: int,
        arrived: float,
        eos_token_ids: Collection[int],
        max_model_len: int,
        cache_salt: str,
        request_index: int = 0,
        constraint: ConstraintState | None = None,
    ) -> None:
        """`serial` is the request's id, which counts requests in order of arrival.

        `seed` is the request's, or one that was drawn. `constraint` is the request's compiled constraint in its initial
        state; each choice has a copy.
        """
        self.request = request
        self.request_index = request_index  # among the requests that were opened together
        self.constraint = constraint
        self.serial = serial
        self.arrived = arrived
        self.cache_salt = cache_salt
        self.num_cached_tokens = 0  # prompt tokens that the first choice found in the cache when it first ran
        limit_s = request.service_level.first_token_s
        self.first_token_due = math.inf if limit_s is None else arrived + limit_s  # infinite once it can't be met
        self.ended = False  # by an error or an abort; not set if all choices finish
        stopping = request.stopping
        end_token_ids = frozenset(stopping.stop_token_ids)
        if not stopping.ignore_eos:
            end_token_ids |= frozenset(eos_token_ids)
        max_tokens = max_model_len - len(request.prompt_token_ids)
        if stopping.max_tokens is not None:
            max_tokens = min(max_tokens, stopping.max_tokens)
        self.sequences = [
            Sequence(
                self,
                choice_index,
                tokenizer,
                seed=choice_seed(seed, choice_index),
                end_token_ids=end_token_ids,
                max_tokens=max_tokens,
            )
            for choice_index in range(request.n)
        ]

    @property
    def is_finished(self) -> bool:
        """True if every choice has ended."""
        return self.ended or all(sequence.finish_reason for sequence in self.sequences)


class Sequence:
    """One choice: prompt and generated tokens, the number of computed ones, and their cache blocks.

    A sequence with `num_computed_tokens < len(token_ids)` has work. `block_tables` has a table for each cache group, of
    equal lengths: the ids of the blocks for its tokens in order; block i holds positions i·block_size up to
    (i+1)·block_size. The first `num_given_back` entries of a group's table are NO_BLOCK.
    """

    def __init__(
        self,
        group: SequenceGroup,
        choice_index: int,
        tokenizer: Vocabulary,
        *,
        seed: int,
        end_token_ids: frozenset[int],
        max_tokens: int,
    ) -> None:
        request = group.request
        stopping = request.stopping
        self.group = group
        self.request = request
        self.choice_index = choice_index
        self.last_paced_step = 0  # the number of the last step with paced decodes that computed it
        self.seed = seed  # 0 ≤ seed < 2**63
        self.end_token_ids = end_token_ids  # must not be sampled while is_too_short
        self.max_tokens = max_tokens
        self._min_tokens = stopping.min_tokens
        self.token_ids = list(request.prompt_token_ids)
        self.num_prompt_tokens = len(self.token_ids)
        self.num_computed_tokens = 0
        self.num_charged_tokens = 0  # the first ones of token_ids, which were charged to its key
        self.block_tables = [array("i")]
        self.num_given_back = [0]
        self.state: SequenceState | None = None  # its recurrent state; None while it doesn't run or without one
        self.departure = 0  # tokens of its prompt whose blocks were cached when it started, with or without a state
        self.block_hashes: list[bytes] = []  # of the full blocks of token_ids, computed on demand
        self.constraint = group.constraint.fork() if group.constraint else None
        self.finish_reason: FinishReason | None = None
        self.scheduled: float | None = None  # the start of its first step; instants are of time.monotonic()
        self.first_token: float | None = None
        self.num_preemptions = 0
        self.num_yielded_tokens = 0  # that shorter prompts behind it computed instead of it
        self.num_written_tokens = 0  # prompt tokens that it added to the cache, in blocks of nothing else
        self.cost = SequenceCost()
        self.progress_due = -math.inf if request.reports_progress and choice_index == 0 else None  # None: no more
        self._was_redirected = False  # True if a token was replaced so that the text ends within the limit
        self._finished: float | None = None
        self._pending_output = PendingOutput(
            request,
            tokenizer,
            choice_index=choice_index,
            request_index=group.request_index,
            num_open_tokens=stopping.min_tokens,
        )

    @property
    def order(self) -> tuple[int, float, int, int]:
        """The scheduling order: by priority, first token due, arrival, and the choice's index. No two are equal."""
        group = self.group
        return self.request.priority, group.first_token_due, group.serial, self.choice_index

    @property
    def due(self) -> float:
        """The instant until which its next token must be sampled; infinite without a limit."""
        if self.first_token is None:
            return self.group.first_token_due
        limit_s = self.request.service_level.token_s
        return math.inf if limit_s is None else self.first_token + _USED * limit_s * self.num_generated_tokens

    @property
    def block_table(self) -> array[int]:
        """The block table of the first cache group."""
        return self.block_tables[0]

    @property
    def num_blocks(self) -> int:
        """The number of cache blocks that it holds."""
        return sum(map(len, self.block_tables)) - sum(self.num_given_back)

    @property
    def num_generated_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def is_too_short(self) -> bool:
        """True if neither an end token nor a stop string may end the choice with the next token."""
        return self.num_generated_tokens < self._min_tokens

    @property
    def num_lacking(self) -> int:
        """The number of tokens that are not computed yet."""
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def needs_prompt_logprobs(self) -> bool:
        """True if it has yet to report the logprobs of the prompt, which the first choice does for all."""
        return self.request.prompt_logprobs is not None and self.choice_index == 0 and self.first_token is None

    @property
    def has_logprobs(self) -> bool:
        """True if logprobs of the answer or the prompt are reported with its tokens."""
        return self.request.logprobs is not None or (
            self.choice_index == 0 and self.request.prompt_logprobs is not None
        )

    def num_logprobs(self, first: int, end: int) -> int:
        """Return the number of logprobs that are reported after computing its tokens from `first` up to `end`."""
        num_prompt = self.num_prompt_tokens
        num = 0
        if self.request.logprobs is not None:  # computing the prompt's last token draws the answer's first
            num += self.request.logprobs.num_per_token * max(0, end - max(first, num_prompt - 1))
        if self.request.prompt_logprobs is not None and self.choice_index == 0:
            num += self.request.prompt_logprobs.num_per_token * max(0, min(end, num_prompt) - first)
        return num

    def take(
        self,
        token_id: int,
        now: float,
        *,
        logprob: TokenLogprob | None = None,
        prompt_logprobs: Collection[TokenLogprob] = (),
        batch_size: int = 1,
    ) -> None:
        """Append a sampled token, which may set the finish reason. `take_outputs` returns it from now on.

        `batch_size` is the number of sequences in its step. Raise ConstraintFailed if the constraint rejects the token.
        """
        self.token_ids.append(token_id)
        if self.first_token is None:
            self.first_token = now
            self._pending_output.add_prompt_logprobs(prompt_logprobs)
        if token_id in self.end_token_ids and self.num_generated_tokens > self._min_tokens:
            self.finish_reason = self._end
            is_text = self.request.stopping.include_stop_str_in_output
            self._pending_output.add(token_id, now, logprob, batch_size, is_text=is_text)
        else:
            constraint_ended = self.constraint is not None and self._advance_constraint(token_id)
            self._pending_output.add(token_id, now, logprob, batch_size, is_text=True)
            if self._pending_output.stop_sequence is not None:
                self.finish_reason = FinishReason.STOP_SEQUENCE
            elif constraint_ended:
                self.finish_reason = self._end
            elif self.num_generated_tokens >= self.max_tokens:
                self.finish_reason = FinishReason.LENGTH
        if self.finish_reason is not None:
            self._finished = now

    def take_outputs(self) -> list[GenerationOutput]:
        """Return the unreported tokens as one output, or as one per output end up to the last one.

        Call it only once after the end.
        """
        timings = Timings(
            self.group.arrived,
            self.scheduled,
            self.first_token,
            self._finished,
            self.num_preemptions,
            self.cost.compute_s,
            self.cost.block_s,
            self.num_written_tokens,
        )
        return self._pending_output.take(timings, self.group.num_cached_tokens, self.finish_reason)

    def take_progress(self, now: float) -> PrefillProgress | None:
        """Return the prompt's progress after a part of it, if it is due. After the last part it always is."""
        is_complete = self.num_computed_tokens >= self.num_prompt_tokens
        if not is_complete and (self.progress_due is None or now < self.progress_due):
            return None
        self.progress_due = None if is_complete else now + PROGRESS_INTERVAL_S
        group, began = self.group, now if self.scheduled is None else self.scheduled
        return PrefillProgress(group.request_index, self.num_computed_tokens, group.num_cached_tokens, began, now)

    def replace_token(self, token_id: int) -> int:
        """Return the token to append if `token_id` was drawn: another one if the constraint could no longer be met.

        Raise ConstraintFailed if the constraint raises an exception.
        """
        if self.constraint is None:
            return token_id
        try:
            replacement = self.constraint.replace_token(token_id, self.max_tokens - self.num_generated_tokens)
        except BaseException as error:  # foreign code, which may even panic
            raise ConstraintFailed("the output constraint failed") from error
        if replacement != token_id:
            self._was_redirected = True
        return replacement

    def forced_tokens(self) -> list[int]:
        """Return the next tokens that the constraint, if any, most likely forces."""
        if self.constraint is None:
            return []
        try:
            return self.constraint.forced_tokens()
        except BaseException:  # noqa: BLE001  foreign code, which may even panic; without a guess the mask decides
            return []

    def cut_off(self, now: float) -> None:
        """End the choice where it is, with LENGTH."""
        self.finish_reason = FinishReason.LENGTH
        self._finished = now

    @property
    def _end(self) -> FinishReason:
        """The reason of a text that ends by itself: LENGTH if a token was replaced to make it end within the limit."""
        return FinishReason.LENGTH if self._was_redirected else FinishReason.END_OF_TEXT

    def _advance_constraint(self, token_id: int) -> bool:
        """Advance the constraint, if any. Return True if it allows nothing after the token."""
        if self.constraint is None:
            return False
        try:
            self.constraint.accept(token_id)
            return self.constraint.is_finished()
        except BaseException as error:  # foreign code, which may even panic: only this sequence fails
            raise ConstraintFailed("the output constraint failed") from error

"""From torch's logits to tokens, for all rows of a step at once."""

from __future__ import annotations

from collections import abc

import numpy as np
import torch
from torch import Tensor

from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import Sequence
from service.engine.device.transfer import HostCopy, to_device, to_host
from service.engine.sampler.draw import draw, uniforms
from service.engine.sampler.effects.output_constraint import no_token, replace_tokens
from service.engine.sampler.effects.table import effects
from service.engine.sampler.logprobs import Logprobs, logprobs_of
from service.engine.sampler.truncation import truncate
from service.engine.tokens.watermark import Watermark
from service.generation.errors import SequenceError
from service.generation.outputs.output import TokenLogprob
from service.generation.requests.parameters import LogprobsOptions


class TorchSampler:
    """A Sampler of float32 logits [rows, vocabulary] on any device of torch.

    Only rows that use a parameter have its cost.
    """

    def __init__(self, watermark: Watermark = Watermark()) -> None:  # noqa: B008  immutable
        self._effects = effects(watermark)

    @torch.inference_mode()
    def sample(
        self, logits: Tensor, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int] | None = None
    ) -> list[SampledToken | SequenceError]:
        """Choose the next token of each sequence, from the row of the same index or from the row that `rows` names.

        The logits are overwritten. The result for a row is a SequenceError if its constraint fails or allows no token,
        or if its logits are not finite; other rows are not affected.
        """
        return self.start(logits, sequences, rows).finish()

    @torch.inference_mode()
    def start(
        self, logits: Tensor, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int] | None = None
    ) -> PendingTokens:
        """Let the device choose the next token of each sequence, as `sample` does, without waiting for it."""
        if rows is not None:
            logits = logits.index_select(0, to_device(np.array(rows), logits.device))
        logprobs = Logprobs(logits, sequences)
        failures = self._change(logits, sequences)
        largest, chosen = logits.max(dim=-1)
        random = [row for row, sequence in enumerate(sequences) if not sequence.request.sampling.is_greedy]
        if random:
            index = to_device(np.array(random), logits.device)
            own = logits if len(random) == len(sequences) else logits.index_select(0, index)
            chosen[index] = _draw(own, largest[index], [sequences[row] for row in random])
        return PendingTokens(sequences, chosen, largest.isfinite(), logprobs, failures)

    @torch.inference_mode()
    def prompt_logprobs(
        self, logits: Tensor, first_row: int, token_ids: abc.Sequence[int], options: LogprobsOptions
    ) -> list[TokenLogprob]:
        """Return the logprobs of given tokens, one per row from `first_row` on."""
        return logprobs_of(logits[first_row : first_row + len(token_ids)], token_ids, options)

    def release(self, sequence: Sequence) -> None:
        """Drop the state of a sequence."""
        for effect in self._effects:
            effect.release(sequence)

    def _change(self, logits: Tensor, sequences: abc.Sequence[Sequence]) -> dict[int, SequenceError]:
        """Apply each effect to the rows that use it, in place; return the rows that failed."""
        failures: dict[int, SequenceError] = {}
        for effect in self._effects:
            rows = [row for row, sequence in enumerate(sequences) if effect.is_used_by(sequence)]
            if rows:
                failures |= effect.change_rows(logits, sequences, rows, lambda each: to_device(each, logits.device))
        return failures


class PendingTokens:
    """The tokens that a device chooses."""

    def __init__(
        self,
        sequences: abc.Sequence[Sequence],
        token_ids: Tensor,
        is_finite: Tensor,
        logprobs: Logprobs,
        failures: dict[int, SequenceError],
    ) -> None:
        """`is_finite` has False for rows without valid logits; `failures` are the rows that have failed already."""
        self.token_ids = token_ids  # int64 [sequences], on the device
        self.replaced: set[Sequence] = set()  # after `finish`, those that got another token than the device chose
        self._sequences = sequences
        self._results = [is_finite, token_ids, *logprobs.tensors(token_ids)]
        self._logprobs = logprobs
        self._failures = failures
        self._copy: HostCopy | None = None

    def copy(self) -> None:
        """Queue the copy of the results, so that `finish` doesn't wait for work that is queued after it."""
        self._copy = HostCopy(self._results)

    @torch.inference_mode()
    def finish(self) -> list[SampledToken | SequenceError]:
        """Wait for the device, and return the result of each sequence. Call it once."""
        # The only point where a step waits for its device.
        values = to_host(self._results) if self._copy is None else self._copy.values()
        is_finite, drawn, *of_logprobs = values
        failures, sequences = self._failures, self._sequences
        for row in np.flatnonzero(~is_finite).tolist():
            failures.setdefault(row, no_token(sequences[row]))
        token_ids = drawn.tolist()
        failures |= replace_tokens(sequences, token_ids, failures)
        self.replaced = {sequences[row] for row in np.flatnonzero(drawn != token_ids).tolist()}
        token_logprobs = self._logprobs.by_row(drawn.tolist(), token_ids, of_logprobs)
        return [
            failures.get(row) or SampledToken(token_ids[row], token_logprobs.get(row)) for row in range(len(sequences))
        ]


def _draw(logits: Tensor, largest: Tensor, sequences: abc.Sequence[Sequence]) -> Tensor:
    """Draw a token for each row. The largest logit is subtracted first, so that no temperature makes a row overflow."""
    params = [sequence.request.sampling for sequence in sequences]
    bounds = torch.finfo(torch.float32)
    requested = np.array([each.temperature for each in params]).clip(bounds.tiny, bounds.max).astype(np.float32)
    temperatures = to_device(requested, logits.device)
    logits = logits.sub_(largest[:, None]).div_(temperatures[:, None])
    truncate(logits, params)
    numbers = uniforms(
        [sequence.seed for sequence in sequences], [sequence.num_generated_tokens for sequence in sequences]
    )
    return draw(logits.softmax(dim=-1), to_device(numbers, logits.device))

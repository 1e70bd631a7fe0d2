"""From the native backend's logits to tokens, row by row, without torch."""

from __future__ import annotations

from collections import abc
from typing import NamedTuple

import numpy as np
import sluice_native
from numpy.typing import NDArray

from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import Sequence
from service.engine.sampler.effects.effect import Effect
from service.engine.sampler.effects.output_constraint import no_token, replace_tokens
from service.engine.sampler.effects.table import effects
from service.engine.sampler.row_logprobs import log_softmax, logprob_of
from service.engine.tokens.watermark import Watermark
from service.generation.errors import SequenceError
from service.generation.outputs.output import TokenLogprob
from service.generation.requests.parameters import LogprobsOptions, Trait, values_with

_LOGITS_A_THREAD = 1 << 17  # a thread with fewer takes longer to wake than it saves


class _Rule(NamedTuple):
    """The part of a sequence's request that the sampler needs, the same for all its tokens."""

    draw: sluice_native.DrawParams
    effects: tuple[Effect, ...]  # those that it uses, in their order
    is_plain: bool  # it uses no effect and requests no logprobs


class NativeSampler:
    """A Sampler of float32 logits [rows, vocabulary] in numpy.

    A sequence's token depends only on its logits, its parameters, its seed and the token's index, to the last bit. It
    is the same as `TorchSampler`'s, except for rounding at a border.
    """

    def __init__(
        self,
        watermark: Watermark = Watermark(),  # noqa: B008  immutable
        num_threads: abc.Callable[[], int] = lambda: 1,
    ) -> None:
        self._effects = effects(watermark)
        self._num_threads = num_threads
        self._rules: dict[Sequence, _Rule] = {}

    def sample(
        self, logits: NDArray[np.float32], sequences: abc.Sequence[Sequence], rows: abc.Sequence[int] | None = None
    ) -> list[SampledToken | SequenceError]:
        """Choose the next token of each sequence, from the row of the same index or from the row that `rows` names.

        The logits are overwritten, and no row is named twice. The result for a row is a SequenceError if its constraint
        fails or allows no token, or if its logits are not finite; other rows are not affected.
        """
        if rows is None:
            rows = range(len(sequences))
        rules = [self._rules.get(each) or self._rule(each) for each in sequences]
        indices = [len(each.token_ids) - each.num_prompt_tokens for each in sequences]
        if all(rule.is_plain for rule in rules):
            drawn = self._choose(logits, rows, rules, sequences, indices)
            return [
                SampledToken(token_id) if token_id >= 0 else no_token(sequence)
                for token_id, sequence in zip(drawn, sequences, strict=True)
            ]
        logprobs: dict[int, NDArray[np.float32]] = {}
        failures: dict[int, SequenceError] = {}
        changed = [index for index, rule in enumerate(rules) if not rule.is_plain]
        with np.errstate(all="ignore"):  # a row that is not a number gets a SequenceError
            for index in changed:
                row, sequence = logits[rows[index]], sequences[index]
                if sequence.request.logprobs is not None:
                    logprobs[index] = log_softmax(row)
                try:
                    for effect in rules[index].effects:
                        effect.change_row(row, sequence)
                except SequenceError as failure:
                    failures[index] = failure
        token_ids = self._choose(logits, rows, rules, sequences, indices)
        failures |= replace_tokens(sequences, token_ids, failures)
        results: list[SampledToken | SequenceError] = [
            SampledToken(token_id) if token_id >= 0 else no_token(sequence)
            for token_id, sequence in zip(token_ids, sequences, strict=True)
        ]
        for index, found in logprobs.items():
            if (token_id := token_ids[index]) >= 0 and (options := sequences[index].request.logprobs):
                results[index] = SampledToken(token_id, logprob_of(found, token_id, options))
        for index, failed in failures.items():
            results[index] = failed
        return results

    def draw(
        self, logits: NDArray[np.float32], sequences: abc.Sequence[Sequence], ahead: abc.Sequence[int]
    ) -> list[int]:
        """Return a guess of each sequence's token `ahead` tokens after its next one, drawn from its row.

        Parameters of the draw apply; the request's effects are ignored, and the row is not checked for finite values.
        """
        rules = [self._rules.get(each) or self._rule(each) for each in sequences]
        indices = [each.num_generated_tokens + distance for each, distance in zip(sequences, ahead, strict=True)]
        found = self._choose(logits, range(len(sequences)), rules, sequences, indices)
        return [max(token_id, 0) for token_id in found]

    def prompt_logprobs(
        self, logits: NDArray[np.float32], first_row: int, token_ids: abc.Sequence[int], options: LogprobsOptions
    ) -> list[TokenLogprob]:
        """Return the logprobs of given tokens, one per row from `first_row` on."""
        with np.errstate(all="ignore"):
            return [
                logprob_of(log_softmax(logits[row]), token_id, options)
                for row, token_id in enumerate(token_ids, first_row)
            ]

    def release(self, sequence: Sequence) -> None:
        """Drop the state of a sequence."""
        self._rules.pop(sequence, None)
        for effect in self._effects:
            effect.release(sequence)

    def _choose(
        self,
        logits: NDArray[np.float32],
        rows: abc.Sequence[int],
        rules: abc.Sequence[_Rule],
        sequences: abc.Sequence[Sequence],
        indices: abc.Sequence[int],
    ) -> list[int]:
        return sluice_native.sample(
            logits,
            rows,
            [rule.draw for rule in rules],
            sluice_native.uniforms([each.seed for each in sequences], indices),
            min(self._num_threads(), 1 + len(rows) * logits.shape[1] // _LOGITS_A_THREAD),
        )

    def _rule(self, sequence: Sequence) -> _Rule:
        request = sequence.request
        used = tuple(effect for effect in self._effects if effect.is_used_by(sequence))
        draw = sluice_native.DrawParams(**values_with(Trait.DRAW, request.sampling))
        rule = self._rules[sequence] = _Rule(draw, used, not used and request.logprobs is None)
        return rule

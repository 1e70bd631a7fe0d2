"""From the native step's logits to tokens: plain rows natively, the others by `TorchSampler`."""

from __future__ import annotations

import struct
from collections import abc

import numpy as np
import sluice_native
import torch
from numpy.typing import NDArray

from service.engine.core import SampledToken
from service.engine.sampler.draw import uniforms
from service.engine.sampler.torch_sampler import TorchSampler, no_token
from service.engine.sequence import Sequence
from service.engine.watermark import Watermark
from service.generation.errors import SequenceError
from service.generation.output import TokenLogprob
from service.generation.parameters import LogprobsOptions

_RULE = struct.Struct("4d")  # temperature, top-k (0: all), top-p, min-p
_LOGITS_A_THREAD = 1 << 17  # with fewer a thread takes longer to wake than it saves


class NativeSampler:
    """A Sampler of float32 logits [rows, vocabulary] in numpy.

    A plain row asks for nothing but temperature, top-k, top-p and min-p. Its token follows from its logits, these
    parameters, its seed and the token's index alone, and is `TorchSampler`'s but for rounding at a border.
    """

    def __init__(self, watermark: Watermark = Watermark()) -> None:  # noqa: B008  immutable
        self._torch = TorchSampler(watermark)
        self._rules: dict[Sequence, bytes] = {}  # of the plain ones

    def sample(
        self, logits: NDArray[np.float32], sequences: abc.Sequence[Sequence], rows: abc.Sequence[int] | None = None
    ) -> list[SampledToken | SequenceError]:
        """Choose the next token of each sequence, from the row of the same index or from the one that `rows` names.

        The logits are used up. A SequenceError stands for a row whose constraint fails or allows no token, or whose
        logits are not finite; the other rows are not touched by it.
        """
        is_plain = [self._is_plain(sequence) for sequence in sequences]
        if all(is_plain):
            return self._choose(logits if rows is None else logits[list(rows)], sequences)
        if not any(is_plain):
            return self._torch.sample(torch.from_numpy(logits), sequences, rows)
        named = range(len(sequences)) if rows is None else rows
        plain = [index for index, each in enumerate(is_plain) if each]
        others = [index for index, each in enumerate(is_plain) if not each]
        chosen = iter(self._choose(logits[[named[index] for index in plain]], [sequences[index] for index in plain]))
        theirs = iter(
            self._torch.sample(
                torch.from_numpy(logits), [sequences[index] for index in others], [named[index] for index in others]
            )
        )
        return [next(chosen if each else theirs) for each in is_plain]

    def prompt_logprobs(
        self, logits: NDArray[np.float32], first_row: int, token_ids: abc.Sequence[int], options: LogprobsOptions
    ) -> list[TokenLogprob]:
        """The logprobs of given tokens, one a row from `first_row` on."""
        return self._torch.prompt_logprobs(torch.from_numpy(logits), first_row, token_ids, options)

    def release(self, sequence: Sequence) -> None:
        """Forget what is kept for a sequence."""
        self._rules.pop(sequence, None)
        self._torch.release(sequence)

    def _is_plain(self, sequence: Sequence) -> bool:
        """Whether the row is plain. It may become so after its `min_tokens`, and stays so."""
        if sequence in self._rules:
            return True
        params = sequence.request.sampling
        is_plain = (
            sequence.constraint is None
            and sequence.request.logprobs is None
            and sequence.request.stopping.min_tokens <= sequence.num_generated_tokens
            and params.typical_p == 1
            and params.repetition_penalty == 1
            and not (params.frequency_penalty or params.presence_penalty or params.logit_bias or params.watermark)
        )
        if is_plain:
            self._rules[sequence] = _RULE.pack(params.temperature, params.top_k or 0, params.top_p, params.min_p)
        return is_plain

    def _choose(
        self, logits: NDArray[np.float32], sequences: abc.Sequence[Sequence]
    ) -> list[SampledToken | SequenceError]:
        """A token for each row; all are plain."""
        rules = np.frombuffer(b"".join([self._rules[each] for each in sequences])).reshape(-1, 4)
        numbers = uniforms([each.seed for each in sequences], [each.num_generated_tokens for each in sequences])
        num_threads = min(torch.get_num_threads(), 1 + logits.size // _LOGITS_A_THREAD)
        token_ids = sluice_native.sample(
            logits,
            np.ascontiguousarray(rules[:, 0]),
            rules[:, 1].astype(np.int32),
            np.ascontiguousarray(rules[:, 2]),
            np.ascontiguousarray(rules[:, 3]),
            numbers,
            num_threads,
        ).tolist()
        return [
            SampledToken(token_id) if token_id >= 0 else no_token(sequence)
            for token_id, sequence in zip(token_ids, sequences, strict=True)
        ]

"""The computing part of the encoder: a batch of inputs in, vectors out.

Which inputs are computed is the core's choice; here a batch is split into padded ones. Only the encoder's thread calls
it.
"""

from __future__ import annotations

from collections import abc
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from service.engine.models.torch.thread import prepare_thread
from service.generation.embedding import TokenIds, Vector

# Padding that costs less than one more pass through the model, in tokens. On an accelerator a pass takes milliseconds
# whatever is in it; on the CPU its own cost is that of a few tokens.
_FREE_PADDING_CPU = 32
_FREE_PADDING_ACCELERATOR = 2048
_MAX_PADDING_FRACTION = 0.125  # of a padded batch's tokens, beyond what is free


class PaddedEncoder(Protocol):
    """A model of padded texts: an encoder, or a cross-encoder, whose vectors are scores."""

    device: torch.device
    num_dimensions: int

    @property
    def max_positions(self) -> int | None:
        """Tokens that it has positions for; None if its positions have no end of their own."""

    def encode(self, token_ids: Tensor, lengths: Tensor, second_starts: Tensor | None = None) -> Tensor:
        """The vectors [texts, dimensions], float32, of int64 `token_ids` [texts, longest], padded at their ends.

        `second_starts` [texts] tell where the second text of each pair begins; 0 where there is none.
        """


class BatchEncoder:
    """An EncoderRunner over a model."""

    def __init__(self, encoder: PaddedEncoder, *, num_threads: int | None = None) -> None:
        """`num_threads` None leaves torch's own number."""
        self._encoder = encoder
        self._free_padding = _FREE_PADDING_CPU if encoder.device.type == "cpu" else _FREE_PADDING_ACCELERATOR
        self._num_threads = num_threads
        self._thread_is_ready = False

    @property
    def num_dimensions(self) -> int:
        """Of each vector."""
        return self._encoder.num_dimensions

    @property
    def max_positions(self) -> int | None:
        """Tokens that it has positions for; None if its positions have no end of their own."""
        return self._encoder.max_positions

    def run(self, inputs: abc.Sequence[TokenIds], second_starts: abc.Sequence[int] = ()) -> abc.Sequence[Vector]:
        """The vectors, float32 [dimensions] each, in the order of the inputs."""
        if not self._thread_is_ready:
            prepare_thread(self._num_threads)
            self._thread_is_ready = True
        vectors = np.empty((len(inputs), self._encoder.num_dimensions), np.float32)
        for rows in padded_batches([len(each) for each in inputs], self._free_padding):
            lengths = torch.tensor([len(inputs[row]) for row in rows])
            token_ids = torch.zeros((len(rows), int(lengths[0])), dtype=torch.int64)
            for place, row in enumerate(rows):
                token_ids[place, : len(inputs[row])] = torch.from_numpy(inputs[row])
            starts = torch.tensor([second_starts[row] for row in rows]) if second_starts else None
            vectors[rows] = self._encoder.encode(token_ids, lengths, starts).cpu().numpy()
        return list(vectors)


def padded_batches(lengths: abc.Sequence[int], free_padding: int) -> abc.Iterator[list[int]]:
    """Indices into `lengths`, the longest first, in runs of similar lengths: each is padded to its first.

    A run ends where its padding would exceed both `free_padding` tokens and a fixed part of it.
    """
    run: list[int] = []
    num_tokens = 0
    for index in sorted(range(len(lengths)), key=lambda each: -lengths[each]):
        if run:
            padded = (len(run) + 1) * lengths[run[0]]
            padding = padded - num_tokens - lengths[index]
            if padding > max(free_padding, padded * _MAX_PADDING_FRACTION):
                yield run
                run, num_tokens = [], 0
        run.append(index)
        num_tokens += lengths[index]
    if run:
        yield run

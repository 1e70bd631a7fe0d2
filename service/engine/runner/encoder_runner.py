"""The runner of an encoder: it computes a vector for each input of a batch.

The core chooses the inputs; the runner splits them into padded batches. Only the encoder's thread calls it.
"""

from __future__ import annotations

from collections import abc
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from service.engine.models.torch.thread import prepare_thread
from service.generation.requests.embedding import TokenIds, Vector

# Padding tokens that cost less than one more pass through the model. On an accelerator a pass takes milliseconds
# regardless of its size; on the CPU the fixed cost of a pass is that of a few tokens.
_FREE_PADDING_CPU = 32
_FREE_PADDING_ACCELERATOR = 2048
_MAX_PADDING_FRACTION = 0.125  # of a padded batch's tokens, beyond the free padding


class PaddedEncoder(Protocol):
    """A model that takes padded texts: an encoder, or a cross-encoder, whose vectors are scores."""

    device: torch.device
    num_dimensions: int

    @property
    def max_positions(self) -> int | None:
        """The number of tokens that the model has positions for, or None if its positions are unlimited."""

    def encode(self, token_ids: Tensor, lengths: Tensor, second_starts: Tensor | None = None) -> Tensor:
        """Return float32 vectors [texts, dimensions] for int64 `token_ids` [texts, longest], padded at their ends.

        `second_starts` [texts] are the offsets of the second text of each pair, 0 for a single text.
        """


class BatchEncoder:
    """An EncoderRunner that runs a model."""

    def __init__(self, encoder: PaddedEncoder, *, num_threads: int | None = None) -> None:
        """If `num_threads` is None, torch chooses the number of threads."""
        self._encoder = encoder
        self._free_padding = _FREE_PADDING_CPU if encoder.device.type == "cpu" else _FREE_PADDING_ACCELERATOR
        self._num_threads = num_threads
        self._thread_is_ready = False

    @property
    def num_dimensions(self) -> int:
        """The number of dimensions of each vector."""
        return self._encoder.num_dimensions

    @property
    def max_positions(self) -> int | None:
        """The number of tokens that the model has positions for, or None if its positions are unlimited."""
        return self._encoder.max_positions

    def run(self, inputs: abc.Sequence[TokenIds], second_starts: abc.Sequence[int] = ()) -> abc.Sequence[Vector]:
        """Return the vectors, float32 [dimensions] each, in the order of the inputs."""
        if not self._thread_is_ready:
            prepare_thread(self._num_threads)
            self._thread_is_ready = True
        vectors = np.empty((len(inputs), self._encoder.num_dimensions), np.float32)
        for rows in padded_batches([len(each) for each in inputs], self._free_padding):
            lengths = torch.tensor([len(inputs[row]) for row in rows])
            token_ids = torch.zeros((len(rows), int(lengths[0])), dtype=torch.int64)
            for index, row in enumerate(rows):
                token_ids[index, : len(inputs[row])] = torch.from_numpy(inputs[row])
            starts = torch.tensor([second_starts[row] for row in rows]) if second_starts else None
            vectors[rows] = self._encoder.encode(token_ids, lengths, starts).cpu().numpy()
        return list(vectors)


def padded_batches(lengths: abc.Sequence[int], free_padding: int) -> abc.Iterator[list[int]]:
    """Yield batches of indices into `lengths`, the longest first. Each batch is padded to its first length.

    A batch ends where its padding would exceed both `free_padding` tokens and a fixed fraction of the batch.
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

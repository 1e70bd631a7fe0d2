"""The interfaces of a backend and of its sampler. No torch: a backend brings its own arrays.

A backend's logits are whatever its sampler takes: a torch tensor, or a handle to memory of a device that sampling
doesn't leave.
"""

from __future__ import annotations

from collections import abc
from typing import Protocol, TypeVar, runtime_checkable

from service.engine.core.batch import Batch
from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import Sequence
from service.engine.models.checkpoint.adapter_files import Adapter
from service.generation.errors import SequenceError
from service.generation.output import TokenLogprob
from service.generation.parameters import LogprobsOptions

Logits_co = TypeVar("Logits_co", covariant=True)
Logits_contra = TypeVar("Logits_contra", contravariant=True)


class Backend(Protocol[Logits_co]):
    """A causal language model with its weights and its cache. Only the engine's thread calls it once it is loaded."""

    def bytes_per_block(self, block_size: int) -> int:
        """Bytes of cache for the keys and values of `block_size` tokens."""

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Make the cache, before the first step, in place of one that was made to try a step."""

    def prepare_thread(self, num_threads: int | None) -> None:
        """Set what the calling thread needs; `num_threads` to compute with, None for the library's own number."""

    def put_adapter(self, place: int, adapter: Adapter) -> None:
        """Hold an adapter for the sequences of batches that name its place, which is free. Raises AdapterRefused."""

    def drop_adapter(self, place: int) -> None:
        """Forget the adapter of a place, and give its memory back."""

    def forward(self, batch: Batch) -> Logits_co:
        """Store the batch's keys and values and compute a row of logits for each of its `output_rows`."""


@runtime_checkable
class KeepsSequences(Protocol):
    """A backend that keeps something of each running sequence beside the blocks; `Batch.slots` identifies it."""

    @property
    def bytes_per_sequence(self) -> int:
        """Bytes that a sequence takes however long it is; `bytes_per_block` counts those of its tokens."""

    def forget(self, place: int) -> None:
        """Drop what is kept of a sequence: it has ended, or it will be computed again from its beginning."""


@runtime_checkable
class RecordsDecodes(Protocol):
    """A backend of a device that may replay steps of decodes from recordings."""

    @property
    def num_replays(self) -> int:
        """Steps that were replayed."""

    def record_decodes(self) -> None:
        """Record decodes over the cache, where that is possible. Called once, after the last `allocate`."""


class Sampler(Protocol[Logits_contra]):
    """Chooses tokens from the logits of one backend. Only the engine's thread calls it."""

    def sample(
        self, logits: Logits_contra, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int] | None = None
    ) -> list[SampledToken | SequenceError]:
        """Choose the next token of each sequence, from the row of the same index or from the one that `rows` names.

        The logits may be used up. A SequenceError stands for a sequence that no token can be chosen for.
        """

    def prompt_logprobs(
        self, logits: Logits_contra, first_row: int, token_ids: abc.Sequence[int], options: LogprobsOptions
    ) -> list[TokenLogprob]:
        """The logprobs of given tokens, one a row from `first_row` on. Called before `sample`; changes nothing."""

    def release(self, sequence: Sequence) -> None:
        """Forget what is kept for a sequence, if anything."""

"""The interfaces of a backend and of its sampler. They do not depend on torch.

A backend's logits are of the type that its sampler takes: a torch tensor, or a handle to device memory in which the
sampler works.
"""

from __future__ import annotations

from collections import abc
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from service.engine.core.batch import Batch, Int32s
from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import Sequence
from service.engine.interface.cache_group import CacheGroup
from service.engine.models.checkpoint.adapter_files import Adapter
from service.generation.errors import SequenceError
from service.generation.outputs.output import TokenLogprob
from service.generation.requests.parameters import LogprobsOptions

Logits_co = TypeVar("Logits_co", covariant=True)
Logits_contra = TypeVar("Logits_contra", contravariant=True)


class Backend(Protocol[Logits_co]):
    """A causal language model with its weights and its cache. After the load only the engine's thread calls it."""

    def bytes_per_block(self, block_size: int) -> int:
        """Return the bytes of a block: the keys and values of `block_size` tokens."""

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Allocate the cache before the first step. It replaces a cache that was allocated to measure a step."""

    def prepare_thread(self, num_threads: int | None) -> None:
        """Configure the calling thread to compute with `num_threads`, or with the library's default if None."""

    def put_adapter(self, slot: int, adapter: Adapter) -> None:
        """Store an adapter in a free slot, for batches that refer to the slot. Raise AdapterRejected if unsupported."""

    def drop_adapter(self, slot: int) -> None:
        """Remove the adapter of a slot and free its memory."""

    def forward(self, batch: Batch) -> Logits_co:
        """Store the batch's keys and values, and return a row of logits for each of its `output_rows`."""


@runtime_checkable
class KeepsSequenceState(Protocol):
    """A backend that keeps a state per running sequence in addition to blocks, in the slots of `Batch.states`."""

    @property
    def bytes_per_sequence(self) -> int:
        """The bytes of a sequence's state that do not depend on its length; `bytes_per_block` has the others."""

    @property
    def splits_states(self) -> bool:
        """True if a step can keep the state before a sequence's last tokens; prefix caching and drafts need it."""

    def allocate_states(self, num_states: int) -> None:
        """Create the slots of states before the first step. It replaces slots that were created to measure a step."""

    def forget(self, slot: int) -> None:
        """Drop the state of a sequence that has ended or will be computed again from its start."""


@runtime_checkable
class GroupsLayers(Protocol):
    """A backend whose layers attend to different parts of a context, and can have block tables of their own."""

    def group_layers(self, max_positions: int, *, keeps_all: bool) -> abc.Sequence[CacheGroup]:
        """Group the layers by their windows, for sequences of at most `max_positions` tokens. Return the groups.

        From now on `bytes_per_block` is for the layers of one group, and batches have a block table for each group.
        With `keeps_all` the first group keeps all tokens. Called before `allocate`.
        """


@runtime_checkable
class ExposesCache(Protocol):
    """A backend whose cache is in host memory, and whose full blocks have the same bytes whenever they are computed."""

    def cache_rows(self) -> abc.Sequence[NDArray[np.uint8]]:
        """Return the bytes of all blocks and, if the model has recurrent layers, of all states' slots, writable.

        Each array is [blocks or slots, bytes of each]. They are valid until the next allocation.
        """

    def place_cache(self, file: int, offsets: abc.Sequence[int]) -> None:
        """Let the next allocations be in an open file: blocks and, if there are any, states from these offsets on."""


@runtime_checkable
class EndsSteps(Protocol):
    """A backend that can end a step before it is complete, after which the step can be repeated."""

    @property
    def ends_steps(self) -> bool:
        """False if this model's steps can't be repeated."""

    def forward_until(self, batch: Batch, arrivals: Int32s) -> Any | None:
        """Compute a step as `forward` does, but end it and return None as soon as arrivals[0] exceeds arrivals[1]."""


@runtime_checkable
class RecordsDecodes(Protocol):
    """A backend that can record decode steps as device graphs and replay them."""

    @property
    def num_replays(self) -> int:
        """The number of replayed steps."""

    def record_decodes(self) -> None:
        """Record decodes over the cache, if possible. Called once, after the last `allocate`."""


@runtime_checkable
class ContinuesDecodes(Protocol):
    """A backend whose device computes steps while the host does other work."""

    @property
    def continues_decodes(self) -> bool:
        """False if this model's steps wait for the device."""

    def forward_following(self, batch: Batch, token_ids: Any) -> Any:
        """Compute a batch of decodes as `forward` does, with the device's `token_ids`, int64 [sequences]."""


class Sampler(Protocol[Logits_contra]):
    """Samples tokens from the logits of one backend. Only the engine's thread calls it."""

    def sample(
        self, logits: Logits_contra, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int] | None = None
    ) -> list[SampledToken | SequenceError]:
        """Sample the next token of each sequence, from the row of the same index or from its row in `rows`.

        The logits may be overwritten. The result has a SequenceError for a sequence for which no token can be sampled.
        """

    def prompt_logprobs(
        self, logits: Logits_contra, first_row: int, token_ids: abc.Sequence[int], options: LogprobsOptions
    ) -> list[TokenLogprob]:
        """Return the logprobs of given tokens, one per row from `first_row` on. Called before `sample`."""

    def release(self, sequence: Sequence) -> None:
        """Drop the state of a sequence, if any."""

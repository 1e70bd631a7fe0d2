"""The sequences that hold blocks, in the order in which steps continue them."""

from __future__ import annotations

from collections import abc
from operator import attrgetter

from service.engine.core.sequences.sequence import Sequence

_by_order = attrgetter("order")


class RunningSequences(abc.Collection[Sequence]):
    """The running sequences of one scheduler. Iteration is in the order of admission."""

    def __init__(self) -> None:
        self._sequences: dict[Sequence, None] = {}
        self._ordered: list[Sequence] | None = None  # None after a change

    def __contains__(self, sequence: object) -> bool:
        return sequence in self._sequences

    def __iter__(self) -> abc.Iterator[Sequence]:
        return iter(self._sequences)

    def __len__(self) -> int:
        return len(self._sequences)

    def add(self, sequence: Sequence) -> None:
        """Add a sequence that has got its first blocks."""
        self._sequences[sequence] = None
        self._ordered = None

    def remove(self, sequence: Sequence) -> None:
        """Remove a running sequence. Raise KeyError for any other."""
        del self._sequences[sequence]
        self._ordered = None

    def split(self) -> tuple[list[Sequence], list[Sequence]]:
        """Return the sequences that lack one token, and those that lack more, by their `order`."""
        if self._ordered is None:
            self._ordered = sorted(self._sequences, key=_by_order)
        decodes: list[Sequence] = []
        prefills: list[Sequence] = []
        for sequence in self._ordered:
            (decodes if len(sequence.token_ids) - sequence.num_computed_tokens == 1 else prefills).append(sequence)
        return decodes, prefills

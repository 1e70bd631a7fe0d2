"""The empty blocks as maximal runs of adjacent ids, so that a sequence gets adjacent blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterator


class FreeRuns:
    """A set of block ids as maximal runs [start, end). All operations take constant time.

    Runs are indexed by the bit length of their length: class c holds the runs of at least 2**(c - 1) blocks, so a
    run that is long enough is found without a search.
    """

    def __init__(self, num_blocks: int, without: Collection[int] = ()) -> None:
        """Start with all ids from 0 to `num_blocks - 1` but those in `without`."""
        self.num_blocks = 0
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}
        self._classes: list[dict[int, None]] = [{} for _ in range(num_blocks.bit_length() + 1)]
        start = 0
        for block_id in sorted(without):
            self._insert(start, block_id)
            start = block_id + 1
        self._insert(start, num_blocks)

    def __iter__(self) -> Iterator[int]:
        for start, end in self._end_of.items():
            yield from range(start, end)

    def add(self, block_id: int) -> None:
        """Add a block that is not in the set."""
        start, end = block_id, block_id + 1
        if block_id in self._start_of:
            start = self._start_of[block_id]
            self._remove(start)
        if block_id + 1 in self._end_of:
            end = self._end_of[block_id + 1]
            self._remove(block_id + 1)
        self._insert(start, end)

    def has_run(self, after: int | None, num_blocks: int) -> bool:
        """Return whether block `after + 1` is in the set, or the class of a run guarantees `num_blocks` blocks."""
        return (after is not None and after + 1 in self._end_of) or any(self._classes[_fitting_class(num_blocks) :])

    def take(self, after: int | None, num_blocks: int) -> int:
        """Remove and return a block: `after + 1` if it is in the set, else the first of `num_blocks` adjacent ones.

        In a longer run, the last `num_blocks` are chosen, so that a sequence that ends before the run can continue
        into its rest. If no run is long enough, the block is the start of a long run.
        """
        if after is not None and after + 1 in self._end_of:
            start = block_id = after + 1
        else:
            start = self._find(num_blocks)
            block_id = max(start, self._end_of[start] - num_blocks)
        end = self._end_of[start]
        self._remove(start)
        self._insert(start, block_id)
        self._insert(block_id + 1, end)
        return block_id

    def _find(self, num_blocks: int) -> int:
        """Return the start of a run of at least `num_blocks` blocks, or of one in the longest class with a run."""
        classes = *self._classes[_fitting_class(num_blocks) :], *reversed(self._classes)
        return next(iter(next(runs for runs in classes if runs)))

    def _insert(self, start: int, end: int) -> None:
        """Record the run of free blocks from `start` to before `end`, unless it is empty."""
        if start == end:
            return
        self._end_of[start] = end
        self._start_of[end] = start
        self._classes[(end - start).bit_length()][start] = None
        self.num_blocks += end - start

    def _remove(self, start: int) -> None:
        end = self._end_of.pop(start)
        del self._start_of[end]
        del self._classes[(end - start).bit_length()][start]
        self.num_blocks -= end - start


def _fitting_class(num_blocks: int) -> int:
    """Return the first class whose runs all have at least `num_blocks` blocks."""
    return (num_blocks - 1).bit_length() + 1

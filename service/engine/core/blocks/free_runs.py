"""The free blocks as maximal runs of adjacent ids, so that a sequence can get neighbouring blocks."""

from __future__ import annotations

from collections.abc import Iterator


class FreeRuns:
    """A set of block ids as maximal runs [start, end). All operations take constant time.

    Runs are filed by the bit length of their length, so a run that is long enough is found without looking at any that
    is not. Class c holds runs of at least 2**(c - 1) blocks.
    """

    def __init__(self, num_blocks: int) -> None:
        """All ids from 0 up to `num_blocks` are free."""
        self.num_blocks = 0
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}
        self._classes: list[dict[int, None]] = [{} for _ in range(num_blocks.bit_length() + 1)]
        self._insert(0, num_blocks)

    def __iter__(self) -> Iterator[int]:
        for start, end in self._end_of.items():
            yield from range(start, end)

    def add(self, block_id: int) -> None:
        """Put back a block that is not in the set."""
        start, end = block_id, block_id + 1
        if block_id in self._start_of:
            start = self._start_of[block_id]
            self._remove(start)
        if block_id + 1 in self._end_of:
            end = self._end_of[block_id + 1]
            self._remove(block_id + 1)
        self._insert(start, end)

    def has_room(self, after: int | None, room: int) -> bool:
        """Whether the block that follows `after` is free, or there is a run that is filed as having `room` blocks."""
        return (after is not None and after + 1 in self._end_of) or any(self._classes[_fitting_class(room) :])

    def take(self, after: int | None, room: int) -> int:
        """Take a block out: the one that follows `after` if it is free, or else one with `room` blocks from it on.

        In a longer run these are the last, so that a sequence that ends before the run can go on into the rest. Where
        no run is long enough, a long one is taken from its start.
        """
        if after is not None and after + 1 in self._end_of:
            start = block_id = after + 1
        else:
            start = self._find(room)
            block_id = max(start, self._end_of[start] - room)
        end = self._end_of[start]
        self._remove(start)
        self._insert(start, block_id)
        self._insert(block_id + 1, end)
        return block_id

    def _find(self, room: int) -> int:
        """The start of a run of at least `room` blocks; where none is sure to be, of one about as long as any."""
        classes = *self._classes[_fitting_class(room) :], *reversed(self._classes)
        return next(iter(next(runs for runs in classes if runs)))

    def _insert(self, start: int, end: int) -> None:
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


def _fitting_class(room: int) -> int:
    """The first class of which every run has at least `room` blocks."""
    return (room - 1).bit_length() + 1

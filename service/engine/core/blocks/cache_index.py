"""The index of a cache's rows: which block, or which slot of a state, has which content.

The index may be in memory that outlives its process. At each instant it names only rows that are completely written: a
row enters after the step that has written it, and leaves before it can be written again.
"""

from __future__ import annotations

from typing import Final, Self

_STAMP_BYTES: Final = 8
_KEY_BYTES: Final = 40  # one for the length of the key, and the key
ROW_BYTES: Final = _STAMP_BYTES + _KEY_BYTES


class CacheIndex:
    """The keys of rows, with the order in which they were last used.

    A row's stamp is 0 if its content cannot be found. It is the only part whose change makes a row valid or invalid,
    and it is written by one store. Stamps count up: they are negative for rows that a sequence holds.
    """

    def __init__(self, memory: memoryview, num_rows: int) -> None:
        """Use the first `num_rows * ROW_BYTES` bytes of `memory`, which are zero or an earlier index of equal size."""
        end = num_rows * _STAMP_BYTES
        self._stamps = memory[:end].cast("q")
        self._keys = memory[end : num_rows * ROW_BYTES]
        self._last = max(map(abs, self._stamps), default=0)

    @classmethod
    def private(cls, num_rows: int) -> Self:
        """Return an empty index in this process's own memory."""
        return cls(memoryview(bytearray(num_rows * ROW_BYTES)), num_rows)

    def put(self, row: int, key: bytes) -> None:
        """Name the content of a row that is written and held."""
        start = row * _KEY_BYTES
        self._stamps[row] = 0
        self._keys[start : start + 1 + len(key)] = bytes([len(key)]) + key
        self.hold(row)

    def hold(self, row: int) -> None:
        """Record that a row is in use."""
        self._last += 1
        self._stamps[row] = -self._last

    def release(self, row: int) -> None:
        """Record that a row is no longer in use; it is the last to be evicted."""
        self._last += 1
        self._stamps[row] = self._last

    def drop(self, row: int) -> None:
        """Forget a row, before it is written again."""
        self._stamps[row] = 0

    def clear(self) -> None:
        """Forget all rows."""
        for row in range(len(self._stamps)):
            self._stamps[row] = 0

    def contents(self) -> list[tuple[bytes, int]]:
        """Return the key and the row of each content: held ones, then free ones, the last to be evicted first."""
        rows = [row for row, stamp in enumerate(self._stamps) if stamp and self._keys[row * _KEY_BYTES] < _KEY_BYTES]
        rows.sort(key=lambda row: (self._stamps[row] > 0, -self._stamps[row]))
        return list({self._key(row): row for row in reversed(rows)}.items())[::-1]

    def _key(self, row: int) -> bytes:
        start = row * _KEY_BYTES
        return bytes(self._keys[start + 1 : start + 1 + self._keys[start]])

"""The blocks of the KV cache: their owners and their contents.

A block is an id here; the backend keeps its keys and values.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, OrderedDict, abc
from itertools import chain

from service.engine.core.blocks.free_runs import FreeRuns
from service.engine.core.sequences.sequence import Sequence
from service.generation.image import PromptImage


class BlockPool:
    """`num_blocks` blocks of `block_size` tokens.

    A block is in one of three states: held by one or more sequences; free but cached, that is, found again by a
    sequence that begins alike; free with nothing in it. A full block's content is named by a 256-bit hash of all
    tokens up to its end, of the images that stand there, and of the salt, so equal hashes are taken for equal
    contents. Cached blocks go in the order in which they were last held, a sequence's last block before its first,
    for a block is only found by way of those before it. They go when empty ones run out, and before that to make up
    to a quarter of all blocks empty where a sequence would otherwise be scattered: keys and values side by side can
    be read in place.
    """

    def __init__(self, num_blocks: int, block_size: int, *, shares: bool = True) -> None:
        """With `shares` False no block is found again, whatever is in it."""
        self._shares = shares
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._num_holders = [0] * num_blocks
        self._hash_of = [b""] * num_blocks  # empty where the content can't be found
        self._block_of: dict[bytes, int] = {}
        self._cached: OrderedDict[int, None] = OrderedDict()  # free, with content; first out first
        self._empty = FreeRuns(num_blocks)
        self._max_emptied = num_blocks // 4

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no sequence holds, cached ones included."""
        return self._empty.num_blocks + len(self._cached)

    @property
    def num_cached_blocks(self) -> int:
        """Free blocks whose content can still be found."""
        return len(self._cached)

    def num_blocks_for(self, num_tokens: int) -> int:
        """How many blocks hold `num_tokens` tokens."""
        return -(-num_tokens // self.block_size)

    def num_missing_blocks(self, sequence: Sequence) -> int:
        """How many more blocks a sequence needs for the tokens that it has."""
        return max(0, self.num_blocks_for(len(sequence.token_ids)) - len(sequence.block_table))

    def allocate(self, num_blocks: int = 1, after: int | None = None, *, room: int = 0) -> list[int] | None:
        """Hold `num_blocks` empty blocks, in ascending runs as far as possible.

        `after` is the sequence's last block: the next id is taken if it is empty. `room` is how many blocks the
        sequence may be expected to need from here on. None, and no change, if too few blocks are free.
        """
        if num_blocks > self.num_free_blocks:
            return None
        room = max(room, num_blocks)
        self._evict(num_blocks - self._empty.num_blocks)
        # A cache that is full would only ever offer single blocks here and there; a run is worth some old contents.
        while self._cached and self._empty.num_blocks < self._max_emptied and not self._empty.has_room(after, room):
            self._evict(min(room, self._max_emptied - self._empty.num_blocks))
        block_ids: list[int] = []
        for num_taken in range(num_blocks):
            after = self._empty.take(after, room - num_taken)
            self._num_holders[after] = 1
            block_ids.append(after)
        return block_ids

    def find(self, sequence: Sequence) -> list[int]:
        """The blocks that hold the beginning of the sequence, up to the first that is not cached.

        At least one of the sequence's tokens is left to compute, since the next is sampled from its logits.
        """
        block_ids: list[int] = []
        for index in range((len(sequence.token_ids) - 1) // self.block_size):
            block_id = self._block_of.get(self._content_hash(sequence, index))
            if block_id is None:
                break
            block_ids.append(block_id)
        return block_ids

    def num_free_among(self, block_ids: abc.Iterable[int]) -> int:
        """How many of the blocks no sequence holds."""
        return sum(self._num_holders[block_id] == 0 for block_id in block_ids)

    def hold(self, block_ids: abc.Iterable[int]) -> None:
        """Hold cached blocks that `find` gave, for one more sequence."""
        for block_id in block_ids:
            if self._num_holders[block_id] == 0:
                del self._cached[block_id]
            self._num_holders[block_id] += 1

    def publish(self, sequence: Sequence, first: int, last: int) -> None:
        """Let blocks `first` up to, not including, `last` of the block table be found: they are full and computed.

        A block whose content another block already has stays as it is and is not found.
        """
        for index in range(first, last if self._shares else first):
            content_hash = self._content_hash(sequence, index)
            block_id = sequence.block_table[index]
            if content_hash not in self._block_of:
                self._block_of[content_hash] = block_id
                self._hash_of[block_id] = content_hash

    def release(self, sequence: Sequence) -> None:
        """Let go of all blocks of a sequence; those that can be found stay cached until space is needed."""
        for block_id in reversed(sequence.block_table):
            self._num_holders[block_id] -= 1
            if self._num_holders[block_id] == 0:
                if self._hash_of[block_id]:
                    self._cached[block_id] = None
                else:
                    self._empty.add(block_id)
        del sequence.block_table[:]

    def check(self, sequences: abc.Iterable[Sequence]) -> None:
        """Raise RuntimeError if a block is lost, or held otherwise than by the block tables of `sequences`."""
        num_holders = Counter(chain.from_iterable(sequence.block_table for sequence in sequences))
        free = Counter(chain(self._cached, self._empty))
        for block_id in range(self.num_blocks):
            if num_holders[block_id] != self._num_holders[block_id]:
                raise RuntimeError(
                    f"block {block_id} is in {num_holders[block_id]} block tables "
                    f"and counted as in {self._num_holders[block_id]}"
                )
            if num_holders[block_id] > 1 and not self._hash_of[block_id]:
                raise RuntimeError(f"block {block_id} is shared but not full")
            if (num_holders[block_id] > 0) + free[block_id] != 1:
                raise RuntimeError(f"block {block_id} is {'lost' if not free[block_id] else 'free more than once'}")
        named = {content_hash: i for i, content_hash in enumerate(self._hash_of) if content_hash}
        if named != self._block_of:
            raise RuntimeError("the index of contents does not agree with the blocks")

    def _evict(self, num_blocks: int) -> None:
        for _ in range(min(num_blocks, len(self._cached))):
            block_id, _ = self._cached.popitem(last=False)
            del self._block_of[self._hash_of[block_id]]
            self._hash_of[block_id] = b""
            self._empty.add(block_id)

    def _content_hash(self, sequence: Sequence, index: int) -> bytes:
        """The name of the content of the sequence's full block `index`, found or made by way of those before it."""
        hashes = sequence.block_hashes
        while len(hashes) <= index:
            parent = hashes[-1] if hashes else hashlib.sha256(sequence.group.cache_salt.encode()).digest()
            start = len(hashes) * self.block_size
            end = start + self.block_size
            images = [each for each in sequence.request.images if each.overlaps(start, end)]
            hashes.append(_chain(parent, sequence.token_ids[start:end], images))
        return hashes[index]


def _chain(parent: bytes, token_ids: abc.Sequence[int], images: abc.Iterable[PromptImage]) -> bytes:
    """Different images stand at the same tokens, and each of an image's tokens has seen all of it."""
    seen = b"".join(array("q", [image.start, image.end]).tobytes() + image.digest for image in images)
    return hashlib.blake2b(parent + array("q", token_ids).tobytes() + seen, digest_size=32).digest()

"""The block pool: the owners and the contents of the KV cache's blocks.

A block is an id; the backend stores its keys and values.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, OrderedDict, abc
from itertools import chain

from service.engine.core.blocks.free_runs import FreeRuns
from service.engine.core.sequences.sequence import Sequence
from service.generation.prompts.image import PromptImage

_EXPECTED_TOKENS = 256  # of an answer: adjacent blocks for them are preferred, not reserved


class BlockPool:
    """`num_blocks` blocks of `block_size` tokens.

    A block is in one of three states: held by one or more sequences; free and cached, so that a sequence with the same
    prefix finds it; free and empty. A full block's content is identified by a 256-bit hash of the salt, of all tokens
    up to its end, and of the images among them. Cached blocks are evicted in least recently used order, and a
    sequence's last block before its first, since a block can only be found through its predecessors. They are evicted
    when no empty block is left, and earlier if a sequence would otherwise be scattered over the cache (up to a quarter
    of all blocks are kept empty for that), because adjacent keys and values can be read in place.
    """

    def __init__(self, num_blocks: int, block_size: int, *, shares: bool = True) -> None:
        """If `shares` is False, no block is cached."""
        self._shares = shares
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._num_holders = [0] * num_blocks
        self._hash_of = [b""] * num_blocks  # empty if the content cannot be found
        self._block_of: dict[bytes, int] = {}
        self._cached: OrderedDict[int, None] = OrderedDict()  # free, with content; evicted from the start
        self._empty = FreeRuns(num_blocks)
        self._max_emptied = num_blocks // 4
        self.on_evict: abc.Callable[[bytes], None] | None = None  # called with the hash of an evicted block

    @property
    def num_free_blocks(self) -> int:
        """The number of blocks that no sequence holds, cached ones included."""
        return self._empty.num_blocks + len(self._cached)

    @property
    def num_cached_blocks(self) -> int:
        """The number of free blocks whose content can still be found."""
        return len(self._cached)

    def num_blocks_for(self, num_tokens: int) -> int:
        """Return the number of blocks that hold `num_tokens` tokens."""
        return -(-num_tokens // self.block_size)

    def num_missing_blocks(self, sequence: Sequence) -> int:
        """Return the number of further blocks that a sequence needs for its present tokens."""
        return max(0, self.num_blocks_for(len(sequence.token_ids)) - len(sequence.block_table))

    def allocate(self, num_blocks: int = 1, after: int | None = None, *, num_expected: int = 0) -> list[int] | None:
        """Hold `num_blocks` empty blocks, in ascending runs as far as possible.

        `after` is the sequence's last block: the next id is taken if it is empty. `num_expected` is the number of
        blocks that the sequence is expected to need from now on. Return None, without a change, if too few are free.
        """
        if num_blocks > self.num_free_blocks:
            return None
        target = max(num_expected, num_blocks)
        self._evict(num_blocks - self._empty.num_blocks)
        # A full cache would only offer scattered single blocks; a run of blocks is worth some old contents.
        while self._cached and self._empty.num_blocks < self._max_emptied and not self._empty.has_run(after, target):
            self._evict(min(target, self._max_emptied - self._empty.num_blocks))
        block_ids: list[int] = []
        for num_taken in range(num_blocks):
            after = self._empty.take(after, target - num_taken)
            self._num_holders[after] = 1
            block_ids.append(after)
        return block_ids

    def extend(self, sequence: Sequence, num_new_tokens: int) -> bool:
        """Extend a block table by `num_new_tokens` tokens. Return False, without a change, if blocks are lacking."""
        num_tokens = sequence.num_computed_tokens + num_new_tokens
        if num_tokens <= len(sequence.block_table) * self.block_size:
            return True
        num_missing = self.num_blocks_for(num_tokens) - len(sequence.block_table)
        after = sequence.block_table[-1] if sequence.block_table else None
        num_expected = min(sequence.num_prompt_tokens + sequence.max_tokens, len(sequence.token_ids) + _EXPECTED_TOKENS)
        expected = self.num_blocks_for(num_expected) - len(sequence.block_table)
        block_ids = self.allocate(num_missing, after, num_expected=expected)
        if block_ids is None:
            return False
        sequence.block_table.extend(block_ids)
        return True

    def find(self, sequence: Sequence) -> list[int]:
        """Return the blocks of the sequence's longest cached prefix.

        The prefix never includes the last token, since its logits yield the next token.
        """
        block_ids: list[int] = []
        for index in range((len(sequence.token_ids) - 1) // self.block_size):
            block_id = self._block_of.get(self._content_hash(sequence, index))
            if block_id is None:
                break
            block_ids.append(block_id)
        return block_ids

    def content_hash(self, sequence: Sequence, num_blocks: int) -> bytes:
        """Return the hash of the content of the sequence's first `num_blocks` blocks, which must be full."""
        return self._content_hash(sequence, num_blocks - 1)

    def num_free_among(self, block_ids: abc.Iterable[int]) -> int:
        """Return how many of the blocks no sequence holds."""
        return sum(self._num_holders[block_id] == 0 for block_id in block_ids)

    def hold(self, block_ids: abc.Iterable[int]) -> None:
        """Hold the cached blocks that `find` returned, for one more sequence."""
        for block_id in block_ids:
            if self._num_holders[block_id] == 0:
                del self._cached[block_id]
            self._num_holders[block_id] += 1

    def publish(self, sequence: Sequence, first: int, last: int) -> None:
        """Make the full, computed blocks `first` to `last - 1` of the block table findable.

        A block with the same content as a findable one stays unfindable.
        """
        for index in range(first, last if self._shares else first):
            content_hash = self._content_hash(sequence, index)
            block_id = sequence.block_table[index]
            if content_hash not in self._block_of:
                self._block_of[content_hash] = block_id
                self._hash_of[block_id] = content_hash

    def release(self, sequence: Sequence) -> None:
        """Release all blocks of a sequence. Findable ones stay cached until they are evicted."""
        for block_id in reversed(sequence.block_table):
            self._num_holders[block_id] -= 1
            if self._num_holders[block_id] == 0:
                if self._hash_of[block_id]:
                    self._cached[block_id] = None
                else:
                    self._empty.add(block_id)
        del sequence.block_table[:]

    def check(self, sequences: abc.Iterable[Sequence]) -> None:
        """Raise RuntimeError if a block is lost, or if its holders differ from the block tables of `sequences`."""
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
            if self.on_evict is not None:
                self.on_evict(self._hash_of[block_id])
            self._hash_of[block_id] = b""
            self._empty.add(block_id)

    def _content_hash(self, sequence: Sequence, index: int) -> bytes:
        """Return the hash of the content of the sequence's full block `index`, chained from its predecessors."""
        hashes = sequence.block_hashes
        while len(hashes) <= index:
            parent = hashes[-1] if hashes else hashlib.sha256(sequence.group.cache_salt.encode()).digest()
            start = len(hashes) * self.block_size
            end = start + self.block_size
            images = [each for each in sequence.request.images if each.overlaps(start, end)]
            hashes.append(_chain(parent, sequence.token_ids[start:end], images))
        return hashes[index]


def _chain(parent: bytes, token_ids: abc.Sequence[int], images: abc.Iterable[PromptImage]) -> bytes:
    """Return a block's hash. Images are part of it: different images have the same placeholder tokens."""
    seen = b"".join(array("q", [image.start, image.end]).tobytes() + image.digest for image in images)
    return hashlib.blake2b(parent + array("q", token_ids).tobytes() + seen, digest_size=32).digest()

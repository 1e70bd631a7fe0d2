"""The block pool: the owners and the contents of the KV cache's blocks.

A block is an id; the backend stores its keys and values.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict, abc
from itertools import chain

from service.engine.core.blocks.block_tables import CachedPrefix, check_tables
from service.engine.core.blocks.cache_index import CacheIndex
from service.engine.core.blocks.cache_recorder import CacheRecorder
from service.engine.core.blocks.content_hash import content_hash
from service.engine.core.blocks.free_runs import FreeRuns
from service.engine.core.sequences.sequence import NO_BLOCK, Sequence
from service.engine.interface.cache_group import ONE_GROUP, CacheGroup

_HASH_BYTES = 32  # of a content's hash
_EXPECTED_TOKENS = 256  # of an answer: adjacent blocks for them are preferred, not reserved


class BlockPool:
    """`num_blocks` blocks of `block_size` tokens, for all groups of layers.

    A sequence has a block table for each group, and a block belongs to one group's table. A group with a window gives
    blocks back while the sequence runs, once no later token attends to any of their tokens.

    A block is in one of three states: held by one or more sequences; free and cached, so that a sequence with the same
    prefix finds it; free and empty. A full block's content is identified by a 256-bit hash of the salt, of all tokens
    up to its end, and of the images among them. Cached blocks are evicted in least recently used order, and a
    sequence's last block before its first, since a block can only be found through its predecessors. They are evicted
    when no empty block is left, and earlier if a sequence would otherwise be scattered over the cache (up to a quarter
    of all blocks are kept empty for that), because adjacent keys and values can be read in place.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        groups: abc.Sequence[CacheGroup] = ONE_GROUP,
        shares: bool = True,
        index: CacheIndex | None = None,
    ) -> None:
        """If `shares` is False, no block is cached. `index` is kept up to date; its present content is not used."""
        self._index = index or CacheIndex.private(num_blocks)
        self._shares = shares
        self._groups = groups
        self._windowed = [(index, group) for index, group in enumerate(groups) if group.window]
        self._full = [index for index, group in enumerate(groups) if not group.window]
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._num_holders = [0] * num_blocks
        self._key_of = [b""] * num_blocks  # empty if the content cannot be found
        self._block_of: dict[bytes, int] = {}
        self._cached: OrderedDict[int, None] = OrderedDict()  # free, with content; evicted from the start
        self._empty = FreeRuns(num_blocks)
        self._max_emptied = num_blocks // 4
        self._recorded = self._full[:1]  # the group whose blocks are reported
        suffix = _suffix(*self._recorded)
        self.recorder = CacheRecorder(block_size, lambda content: content + suffix in self._block_of)
        self.on_evict: abc.Callable[[bytes], None] | None = None  # called with the hash of an evicted block

    @property
    def num_free_blocks(self) -> int:
        """The number of blocks that no sequence holds, cached ones included."""
        return self._empty.num_blocks + len(self._cached)

    @property
    def num_cached_blocks(self) -> int:
        """The number of free blocks whose content can still be found."""
        return len(self._cached)

    @property
    def groups(self) -> abc.Sequence[CacheGroup]:
        """The groups of layers, each of which has a block for any token that it attends to."""
        return self._groups

    def num_blocks_for(self, num_tokens: int) -> int:
        """Return the number of blocks of one group that hold `num_tokens` tokens."""
        return -(-num_tokens // self.block_size)

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
        """Extend the block tables by `num_new_tokens` tokens. Return False, without a change, if blocks are lacking."""
        num_tokens = sequence.num_computed_tokens + num_new_tokens
        num_held = len(sequence.block_tables[0])
        if num_tokens <= num_held * self.block_size:
            return True
        num_missing = self.num_blocks_for(num_tokens) - num_held
        if num_missing * len(self._groups) > self.num_free_blocks:
            return False
        num_expected = min(sequence.num_prompt_tokens + sequence.max_tokens, len(sequence.token_ids) + _EXPECTED_TOKENS)
        expected = self.num_blocks_for(num_expected) - num_held
        self._add_tables(sequence)
        for table in sequence.block_tables:
            after = table[-1] if table and table[-1] != NO_BLOCK else None
            block_ids = self.allocate(num_missing, after, num_expected=expected)
            assert block_ids is not None  # noqa: S101  they were counted above
            table.extend(block_ids)
        return True

    def find(self, sequence: Sequence) -> CachedPrefix:
        """Return the sequence's longest cached prefix.

        It never includes the last token, since its logits yield the next token. A group with a window needs only the
        blocks of the tokens that are visible after the prefix.
        """
        num_blocks = (len(sequence.token_ids) - 1) // self.block_size
        for group in self._full:
            num_blocks = next((i for i in range(num_blocks) if not self._is_cached(sequence, group, i)), num_blocks)
        while num_blocks:
            lacking = max((self._last_lacking(sequence, each, num_blocks) for each, _ in self._windowed), default=-1)
            if lacking < 0:
                break
            num_blocks = lacking  # a longer prefix that includes the lacking block would need it
        tables = []
        for index in range(len(self._groups)):
            first = self._first_needed(index, num_blocks)
            found = [self._block_of[self._content_key(sequence, index, i)] for i in range(first, num_blocks)]
            tables.append([NO_BLOCK] * first + found)
        return CachedPrefix(num_blocks, tables)

    def content_hash(self, sequence: Sequence, num_blocks: int) -> bytes:
        """Return the hash of the content of the sequence's first `num_blocks` blocks, which must be full."""
        return content_hash(sequence, num_blocks - 1, self.block_size)

    def num_free_among(self, prefix: CachedPrefix) -> int:
        """Return how many blocks of the prefix no sequence holds."""
        held = self._num_holders
        return sum(block_id != NO_BLOCK and held[block_id] == 0 for block_id in chain.from_iterable(prefix.tables))

    def hold(self, sequence: Sequence, prefix: CachedPrefix) -> None:
        """Hold the cached blocks that `find` returned, for a sequence without blocks."""
        self._add_tables(sequence)
        for index, (table, block_ids) in enumerate(zip(sequence.block_tables, prefix.tables, strict=False)):
            sequence.num_given_back[index] = self._first_needed(index, prefix.num_blocks)
            table.extend(block_ids)
            for block_id in block_ids[sequence.num_given_back[index] :]:
                if self._num_holders[block_id] == 0:
                    del self._cached[block_id]
                    self._index.hold(block_id)
                self._num_holders[block_id] += 1
        if self.recorder.is_on and self._recorded:
            self.recorder.add(sequence, 0, prefix.num_blocks)

    def publish(self, sequence: Sequence, first: int, last: int) -> None:
        """Make the full, computed blocks `first` to `last - 1` of the block tables findable.

        A block with the same content as a findable one stays unfindable.
        """
        for index in range(first, last if self._shares else first):
            for group, table in enumerate(sequence.block_tables):
                content_key = self._content_key(sequence, group, index)
                if content_key not in self._block_of:
                    self._block_of[content_key] = table[index]
                    self._key_of[table[index]] = content_key
                    self._index.put(table[index], content_key)
        if self.recorder.is_on and self._recorded and self._shares:
            self.recorder.add(sequence, first, last)

    def give_back(self, sequence: Sequence) -> None:
        """Release the blocks that no token after the computed ones attends to. Call it after `publish`."""
        for index, group in self._windowed:
            first = group.first_visible(sequence.num_computed_tokens) // self.block_size
            num_given_back = sequence.num_given_back[index]
            if first > num_given_back:
                table = sequence.block_tables[index]
                for i in range(num_given_back, first):
                    self._release(table[i])
                    table[i] = NO_BLOCK
                sequence.num_given_back[index] = first

    def release(self, sequence: Sequence) -> None:
        """Release all blocks of a sequence. Findable ones stay cached until they are evicted."""
        for block_ids in zip(*map(reversed, sequence.block_tables), strict=True):
            for block_id in block_ids:
                if block_id != NO_BLOCK:
                    self._release(block_id)
        for table in sequence.block_tables:
            del table[:]
        sequence.num_given_back = [0] * len(sequence.block_tables)

    def contents(self) -> list[tuple[bytes, int]]:
        """Return the keys and ids of all findable blocks, the most useful first."""
        return self._index.contents()

    def adopt(self, contents: abc.Sequence[tuple[bytes, int]]) -> None:
        """Make blocks of a new pool findable: the backend has their contents. Keys and ids are as of `contents`."""
        self._index.clear()
        for key, block_id in reversed(contents):
            self._block_of[key] = block_id
            self._key_of[block_id] = key
            self._cached[block_id] = None
            self._index.put(block_id, key)
            self._index.release(block_id)
        self._empty = FreeRuns(self.num_blocks, without=self._cached)

    def check(self, sequences: abc.Iterable[Sequence]) -> None:
        """Raise RuntimeError if a block is lost, or if its holders differ from the block tables of `sequences`."""
        num_holders: Counter[int] = Counter()
        for sequence in sequences:
            check_tables(sequence, self._groups, self.block_size)
            num_holders.update(chain.from_iterable(sequence.block_tables))
        free = Counter(chain(self._cached, self._empty))
        for block_id in range(self.num_blocks):
            if num_holders[block_id] != self._num_holders[block_id]:
                raise RuntimeError(
                    f"block {block_id} is in {num_holders[block_id]} block tables "
                    f"and counted as in {self._num_holders[block_id]}"
                )
            if num_holders[block_id] > 1 and not self._key_of[block_id]:
                raise RuntimeError(f"block {block_id} is shared but not full")
            if (num_holders[block_id] > 0) + free[block_id] != 1:
                raise RuntimeError(f"block {block_id} is {'lost' if not free[block_id] else 'free more than once'}")
        named = {key: i for i, key in enumerate(self._key_of) if key}
        if named != self._block_of or named != dict(self._index.contents()):
            raise RuntimeError("the index of contents does not agree with the blocks")

    def _evict(self, num_blocks: int) -> None:
        for _ in range(min(num_blocks, len(self._cached))):
            block_id, _ = self._cached.popitem(last=False)
            key = self._key_of[block_id]
            del self._block_of[key]
            if self.on_evict is not None:
                self.on_evict(key)
            if self.recorder.is_on and key[_HASH_BYTES:] == _suffix(*self._recorded):
                self.recorder.remove(key[:_HASH_BYTES])
            self._key_of[block_id] = b""
            self._index.drop(block_id)
            self._empty.add(block_id)

    def _release(self, block_id: int) -> None:
        self._num_holders[block_id] -= 1
        if self._num_holders[block_id] == 0:
            if self._key_of[block_id]:
                self._cached[block_id] = None
                self._index.release(block_id)
            else:
                self._empty.add(block_id)

    def _add_tables(self, sequence: Sequence) -> None:
        """Give the sequence a block table for each group."""
        for _ in range(len(sequence.block_tables), len(self._groups)):
            sequence.block_tables.append(array("i"))
            sequence.num_given_back.append(0)

    def _first_needed(self, group: int, num_blocks: int) -> int:
        """Return the index of the first block that a group needs after a prefix of `num_blocks` blocks."""
        return self._groups[group].first_visible(num_blocks * self.block_size) // self.block_size

    def _last_lacking(self, sequence: Sequence, group: int, num_blocks: int) -> int:
        """Return the last block that a group needs after a prefix and that is not cached, or -1."""
        needed = range(num_blocks - 1, self._first_needed(group, num_blocks) - 1, -1)
        return next((index for index in needed if not self._is_cached(sequence, group, index)), -1)

    def _is_cached(self, sequence: Sequence, group: int, index: int) -> bool:
        return self._content_key(sequence, group, index) in self._block_of

    def _content_key(self, sequence: Sequence, group: int, index: int) -> bytes:
        """Return the key of a group's block with the content of the sequence's full block `index`."""
        content = content_hash(sequence, index, self.block_size)
        return content + _suffix(group)


def _suffix(group: int = 0) -> bytes:
    """Return what a key has after the hash of the content."""
    return group.to_bytes(2) if group else b""

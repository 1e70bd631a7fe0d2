"""A replica's prefix cache of whole prefixes instead of blocks; the least recently used is evicted first, from its end.

A prompt consists of a shared part and its own part, and both are cached under their keys. `BlockPool` does the same
block by block.
"""

from __future__ import annotations

from collections import OrderedDict

from bench.fleet.simulated.job import Job

Key = tuple[bool, int]  # True for a shared part, and the part's key


class PrefixCache:
    """A cache of `capacity` tokens of keys and values, held by running jobs or kept for later jobs."""

    def __init__(self, capacity: int, block_size: int) -> None:
        self.capacity = capacity
        self.held = 0
        self.kept = 0
        self._block_size = block_size
        self._kept: OrderedDict[Key, int] = OrderedDict()
        self._holders: dict[int, int] = {}  # of shared parts that are held
        self._ready: set[int] = set()  # the computed ones of these

    def found(self, job: Job) -> int:
        """Return the number of the prompt's first tokens in the cache, always less than all."""
        if job.shared and job.shared_key not in self._ready and (True, job.shared_key) not in self._kept:
            return 0
        tokens = job.shared + min(self._kept.get((False, job.own_key), 0), job.own)
        return min(tokens, job.prompt - 1) // self._block_size * self._block_size

    def fits(self, job: Job, num_running: int) -> bool:
        """Return True if the job's prompt fits, with one more block for each running job."""
        shared = 0 if job.shared_key in self._holders else job.shared
        own = job.own + job.generated + self._block_size
        return self.held + shared + own + num_running * self._block_size <= self.capacity

    def hold(self, job: Job) -> None:
        """Hold the tokens of the job's prompt; its kept tokens become held ones."""
        if job.shared:
            holders = self._holders.get(job.shared_key, 0)
            if holders == 0:
                if (kept := self._kept.pop((True, job.shared_key), 0)) > 0:
                    self.kept -= kept
                    self._ready.add(job.shared_key)
                self.held += job.shared
            self._holders[job.shared_key] = holders + 1
            job.holds_shared = True
        self.kept -= self._kept.pop((False, job.own_key), 0)
        job.held = job.own + job.generated
        self.held += job.held
        self._evict()

    def record_prompt(self, job: Job) -> None:
        """Record that the job's prompt is computed; from now on its shared part is found."""
        if job.holds_shared:
            self._ready.add(job.shared_key)

    def grow(self, tokens: int) -> None:
        """Hold more tokens; `release` frees them with their job."""
        self.held += tokens
        self._evict()

    def release(self, job: Job, *, keeps: bool = True) -> None:
        """Free the tokens of a job that ends or is preempted; `job.held` is the size of its own part."""
        self.held -= job.held
        own = job.held // self._block_size * self._block_size
        if keeps and own > 0:
            self._keep((False, job.own_key), own)
        if job.holds_shared:
            job.holds_shared = False
            left = self._holders[job.shared_key] - 1
            if left:
                self._holders[job.shared_key] = left
            else:
                del self._holders[job.shared_key]
                self.held -= job.shared
                if job.shared_key in self._ready:
                    self._ready.discard(job.shared_key)
                    self._keep((True, job.shared_key), job.shared)
        self._evict()

    def _keep(self, key: Key, tokens: int) -> None:
        self.kept += tokens - self._kept.pop(key, 0)
        self._kept[key] = tokens

    def _evict(self) -> None:
        while self.kept and self.held + self.kept > self.capacity:
            key, tokens = next(iter(self._kept.items()))
            excess = -(-(self.held + self.kept - self.capacity) // self._block_size) * self._block_size
            if key[0] or excess >= tokens:
                self.kept -= tokens
                del self._kept[key]
            else:
                self.kept -= excess
                self._kept[key] = tokens - excess

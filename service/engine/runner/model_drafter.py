"""Draft tokens with a smaller model of the same vocabulary.

The draft model samples as the target model's sampler will, with the request's parameters and seed and the token's
index, but from its own logits. Its cache uses the block ids of the target model's first cache group, which must keep
all tokens. A shared block has the same content regardless of the sequence that computed it, so each sequence computes
its own tokens without further bookkeeping.
"""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from itertools import takewhile
from typing import Generic, Protocol, TypeVar

from service.engine.core.batch import BatchEntry, lay_out
from service.engine.core.drafts.drafter import DraftRequest
from service.engine.core.sequences.sequence import Sequence
from service.engine.models.interface.backend import Backend

_CHUNK = 256  # the prompt tokens that one call of `propose` may compute first
Logits_contra = TypeVar("Logits_contra", contravariant=True)
Logits = TypeVar("Logits")


class Draw(Protocol[Logits_contra]):
    """Samples tokens as the sampler would, using only the plain sampling parameters."""

    def __call__(self, logits: Logits_contra, sequences: abc.Sequence[Sequence], ahead: abc.Sequence[int]) -> list[int]:
        """Return a token for each row, for the position `ahead` tokens after the sequence's next one."""


@dataclass(slots=True)
class _Cached:
    """The cached part of a sequence: its tokens up to `num_tokens`, and proposals after them."""

    num_tokens: int
    proposed: list[int]


class ModelDrafter(Generic[Logits]):
    """A Drafter with its own backend, whose cache it allocates."""

    is_costly = True

    def __init__(
        self,
        backend: Backend[Logits],
        draw: Draw[Logits],
        num_blocks: int,
        block_size: int,
        *,
        max_positions: int,
        num_threads: int | None = None,
    ) -> None:
        """`max_positions` is the number of positions that the model supports."""
        self._backend = backend
        self._draw = draw
        self._block_size = block_size
        self._max_positions = max_positions
        self._num_threads = num_threads
        self._thread_is_ready = False
        self._cached: dict[Sequence, _Cached] = {}
        backend.allocate(num_blocks, block_size)

    def propose(self, requests: abc.Sequence[DraftRequest]) -> list[list[int]]:
        """Return the model's proposals; they are empty while the model has not computed the prompt yet."""
        if not self._thread_is_ready:
            self._backend.prepare_thread(self._num_threads)
            self._thread_is_ready = True
        proposals: dict[Sequence, list[int]] = {each.sequence: [] for each in requests}
        parts = self._uncomputed(requests)
        ready = [each for each in requests if each.sequence in parts and parts[each.sequence].num_output_rows]
        while parts:
            logits = self._backend.forward(lay_out(list(parts.values()), self._block_size))
            ahead = [len(each.after) + len(proposals[each.sequence]) for each in ready]
            tokens = self._draw(logits, [each.sequence for each in ready], ahead) if ready else []
            for each, token_id in zip(ready, tokens, strict=True):
                proposals[each.sequence].append(token_id)
            ready = [each for each in ready if len(proposals[each.sequence]) < each.most]
            parts = {each.sequence: self._next_part(each, proposals[each.sequence]) for each in ready}
        for each in requests:
            if proposal := proposals[each.sequence]:
                self._cached[each.sequence] = _Cached(len(each.sequence.token_ids), [*each.after, *proposal[:-1]])
        return list(proposals.values())

    def release(self, sequence: Sequence) -> None:
        """Drop the state of a sequence. It is computed again if the sequence is scheduled again."""
        self._cached.pop(sequence, None)

    def _uncomputed(self, requests: abc.Sequence[DraftRequest]) -> dict[Sequence, BatchEntry]:
        """Return the tokens that the model must compute before it can propose, within the limit of one call."""
        parts, num_left = {}, _CHUNK
        for sequence, after, most in requests:
            text = sequence.token_ids + after
            if len(text) + most > self._max_positions:
                continue
            start = self._num_cached(sequence, text)
            token_ids = text[start : start + max(num_left, 1)]
            num_left -= len(token_ids)
            is_whole = start + len(token_ids) == len(text)
            parts[sequence] = BatchEntry(token_ids, start, [sequence.block_table], int(is_whole))
            if not is_whole:
                end = min(start + len(token_ids), len(sequence.token_ids))  # those of `after` may not come
                self._cached[sequence] = _Cached(end, [])
        return parts

    def _num_cached(self, sequence: Sequence, text: list[int]) -> int:
        """Return the number of the text's first tokens that the model has computed, including accepted proposals."""
        cached = self._cached.get(sequence)
        if cached is None:
            return 0
        pairs = zip(cached.proposed, text[cached.num_tokens : -1], strict=False)
        found = cached.num_tokens + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return min(found, len(text) - 1)  # the last one is computed again after a step that ended early

    def _next_part(self, request: DraftRequest, proposal: list[int]) -> BatchEntry:
        start = len(request.sequence.token_ids) + len(request.after) + len(proposal) - 1
        return BatchEntry(proposal[-1:], start, [request.sequence.block_table], 1)

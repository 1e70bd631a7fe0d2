"""Hashes of the contents of blocks, by which sequences with the same prefix find each other's blocks."""

from __future__ import annotations

import hashlib
from array import array
from collections import abc

from service.engine.core.sequences.sequence import Sequence
from service.generation.prompts.image import PromptImage


def content_hash(sequence: Sequence, index: int, block_size: int) -> bytes:
    """Return the 256-bit hash of the sequence's full block `index` and of all blocks before it.

    It starts from the sequence's cache salt. The sequence keeps the hashes that were computed.
    """
    hashes = sequence.block_hashes
    while len(hashes) <= index:
        parent = hashes[-1] if hashes else hashlib.sha256(sequence.group.cache_salt.encode()).digest()
        start = len(hashes) * block_size
        end = start + block_size
        images = [each for each in sequence.request.images if each.overlaps(start, end)]
        hashes.append(_chain(parent, sequence.token_ids[start:end], images))
    return hashes[index]


def _chain(parent: bytes, token_ids: abc.Sequence[int], images: abc.Iterable[PromptImage]) -> bytes:
    """Return a block's hash. Images are part of it: different images have the same placeholder tokens."""
    seen = b"".join(array("q", [image.start, image.end]).tobytes() + image.digest for image in images)
    return hashlib.blake2b(parent + array("q", token_ids).tobytes() + seen, digest_size=32).digest()

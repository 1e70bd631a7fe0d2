"""From texts to embed to what an encoder runs, and from its vectors to those that were asked for.

Texts become tokens on worker threads, some at a time, so that a request of many or long ones holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from service.engine.tokenizer import Tokenizer
from service.generation.caller import ANONYMOUS, Caller
from service.generation.conversation import RawText, RawTokens
from service.generation.embedding import EmbeddingRequest, TextsToEmbed, TokenIds, Vector
from service.generation.errors import InvalidRequest, PromptTooLong
from service.prompts.priority import check_priority

_NUM_THREADS = 2
_MAX_CHUNK_INPUTS = 64
_MAX_CHUNK_CHARACTERS = 65_536  # or one text that is longer
_PROBE = "a"
_MIN_NORM = 1e-12  # of a vector of zeros, which stays one

_Answer = TypeVar("_Answer")


class EmbeddingPrompts:
    """Prepares the embedding requests of one encoder and cuts its vectors."""

    def __init__(
        self, tokenizer: Tokenizer, max_model_len: int, num_dimensions: int, *, lowers_case: bool = False
    ) -> None:
        """`max_model_len` counts the tokens that the tokenizer adds to a text, too."""
        self.num_dimensions = num_dimensions
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._lowers_case = lowers_case
        self._prefix, self._suffix = _added_tokens(tokenizer)
        self._pool = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="embedding-texts")

    def close(self) -> None:
        """Stop the worker threads; no request may be prepared after."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def prepare(
        self, asked: TextsToEmbed, request_id: str, deadline: float | None = None, caller: Caller = ANONYMOUS
    ) -> EmbeddingRequest:
        """Make a request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

        Raises InvalidRequest and PromptTooLong, naming the field.
        """
        check_priority(asked.priority, caller)
        self._check(asked)
        loop = asyncio.get_running_loop()
        inputs: list[TokenIds] = []
        for indices in _chunks(asked):
            inputs += await loop.run_in_executor(self._pool, self._encode, asked, indices)
        return EmbeddingRequest(request_id, inputs, deadline, caller.id, caller.weight, asked.priority)

    async def finish(
        self, vectors: Sequence[Vector], dimensions: int | None, render: Callable[[list[list[float]]], _Answer]
    ) -> _Answer:
        """`render` of the vectors with that many dimensions, on a thread: there may be millions of numbers."""
        num_dimensions = dimensions or self.num_dimensions

        def work() -> _Answer:
            return render([_cut(vector, num_dimensions).tolist() for vector in vectors])

        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _check(self, asked: TextsToEmbed) -> None:
        if asked.dimensions is not None and asked.dimensions > self.num_dimensions:
            raise InvalidRequest(
                "dimensions", f"must be at most the model's own {self.num_dimensions}, not {asked.dimensions}"
            )
        for given in asked.inputs:
            if isinstance(given, RawTokens):
                if asked.instruction:
                    raise InvalidRequest("instruction", f"can't stand before {given.field}, which is of token ids")
            elif not given.text:
                raise InvalidRequest(f"{given.field}.text", "must not be empty")

    def _encode(self, asked: TextsToEmbed, indices: range) -> list[TokenIds]:
        """On a worker thread."""
        return [self._token_ids(asked, asked.inputs[index]) for index in indices]

    def _token_ids(self, asked: TextsToEmbed, given: RawText | RawTokens) -> TokenIds:
        prefix, suffix = self._prefix, self._suffix
        ids: Sequence[int]
        if isinstance(given, RawTokens):
            prefix, ids, suffix = [], given.token_ids, []
        else:
            text = asked.instruction + given.text
            ids = self._tokenizer.encode(text.lower() if self._lowers_case else text)
        num_tokens = len(prefix) + len(ids) + len(suffix)
        if num_tokens > self._max_model_len:
            if not asked.truncates:
                raise PromptTooLong(given.field, num_tokens, self._max_model_len)
            ids = ids[: self._max_model_len - len(prefix) - len(suffix)]
        return np.array([*prefix, *ids, *suffix], dtype=np.int64)


def _added_tokens(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """What the tokenizer puts before and after a text, such as [CLS] and [SEP]."""
    bare, whole = tokenizer.encode(_PROBE), tokenizer.encode(_PROBE, add_special_tokens=True)
    for start in range(len(whole) - len(bare) + 1):
        end = start + len(bare)
        if whole[start:end] == bare:
            return whole[:start], whole[end:]
    raise ValueError("the tokenizer changes a text's own tokens when it adds special ones")


def _chunks(asked: TextsToEmbed) -> Iterator[range]:
    """Runs of indices, each of which costs a worker little."""
    start = size = 0
    for index, given in enumerate(asked.inputs):
        length = len(given.token_ids) if isinstance(given, RawTokens) else len(asked.instruction) + len(given.text)
        if index > start and (index - start == _MAX_CHUNK_INPUTS or size + length > _MAX_CHUNK_CHARACTERS):
            yield range(start, index)
            start, size = index, 0
        size += length
    yield range(start, len(asked.inputs))


def _cut(vector: Vector, num_dimensions: int) -> Vector:
    """The leading components, at unit length if that isn't all of them."""
    if num_dimensions == len(vector):
        return vector
    kept = vector[:num_dimensions]
    norm = np.maximum(np.linalg.norm(kept), np.float32(_MIN_NORM))
    unit: Vector = (kept / norm).astype(np.float32)
    return unit

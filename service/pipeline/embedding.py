"""From texts to embed to what the encoder runs, and from its vectors to an answer.

Owns one encoder's tokenizer and lengths. Immutable after start. `prepare` is called on the event loop; texts become
tokens on worker threads, some at a time, so that a request of many or long ones holds up no other. Knows no gRPC: it
takes and gives messages, and raises the engine's errors with paths of proto names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sluice.v1 import embedding_pb2

from service.engine.tokenizer import Tokenizer
from service.generation.embedding import EmbeddingRequest, TokenIds, Vector
from service.generation.errors import InvalidRequest, PromptTooLong
from service.pipeline.serving import resolve_serving

_NUM_THREADS = 2
_MAX_CHUNK_INPUTS = 64
_MAX_CHUNK_CHARACTERS = 65_536  # or one text that is longer
_PROBE = "a"
_MIN_NORM = 1e-12  # of a vector of zeros, which stays one


class EmbeddingPipeline:
    """Prepares the embedding requests of one encoder and finishes their answers."""

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
        self, request: embedding_pb2.EmbedRequest, request_id: str, deadline: float | None = None
    ) -> EncodingRequest:
        """Make a validated request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

        Raises InvalidRequest and PromptTooLong, naming the field.
        """
        self._check(request)
        serving = resolve_serving(request.serving, deadline)
        loop = asyncio.get_running_loop()
        inputs: list[TokenIds] = []
        for indices in _chunks(request):
            inputs += await loop.run_in_executor(self._pool, self._encode, request, indices, serving.truncates)
        return EncodingRequest(request_id, inputs, deadline, serving.priority)

    async def embeddings(
        self, request: embedding_pb2.EmbedRequest, vectors: Sequence[Vector]
    ) -> list[embedding_pb2.Embedding]:
        """The answer's vectors, cut to the request's dimensions; a thread makes them, since there may be millions."""
        num_dimensions = request.dimensions or self.num_dimensions
        return await asyncio.get_running_loop().run_in_executor(self._pool, _embeddings, vectors, num_dimensions)

    def _check(self, request: embedding_pb2.EmbedRequest) -> None:
        if request.dimensions > self.num_dimensions:
            raise InvalidRequest(
                "dimensions", f"must be at most the model's own {self.num_dimensions}, not {request.dimensions}"
            )
        for index, given in enumerate(request.inputs):
            if given.WhichOneof("prompt") == "token_ids":
                if request.instruction:
                    raise InvalidRequest("instruction", f"can't stand before inputs[{index}], which is of token ids")
            elif not given.text:
                raise InvalidRequest(f"inputs[{index}].text", "must not be empty")

    def _encode(self, request: embedding_pb2.EmbedRequest, indices: range, truncates: bool) -> list[TokenIds]:  # noqa: FBT001  an executor has no keywords
        """On a worker thread."""
        return [self._token_ids(request, index, truncates=truncates) for index in indices]

    def _token_ids(self, request: embedding_pb2.EmbedRequest, index: int, *, truncates: bool) -> TokenIds:
        given = request.inputs[index]
        prefix, suffix = self._prefix, self._suffix
        ids: Sequence[int]
        if given.WhichOneof("prompt") == "token_ids":
            prefix, ids, suffix = [], given.token_ids.ids, []
        else:
            text = request.instruction + given.text
            ids = self._tokenizer.encode(text.lower() if self._lowers_case else text)
        num_tokens = len(prefix) + len(ids) + len(suffix)
        if num_tokens > self._max_model_len:
            if not truncates:
                raise PromptTooLong(f"inputs[{index}]", num_tokens, self._max_model_len)
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


def _chunks(request: embedding_pb2.EmbedRequest) -> Iterator[range]:
    """Runs of indices, each of which costs a worker little."""
    start = size = 0
    for index, given in enumerate(request.inputs):
        length = len(request.instruction) + len(given.text) + len(given.token_ids.ids)
        if index > start and (index - start == _MAX_CHUNK_INPUTS or size + length > _MAX_CHUNK_CHARACTERS):
            yield range(start, index)
            start, size = index, 0
        size += length
    yield range(start, len(request.inputs))


def _embeddings(vectors: Sequence[Vector], num_dimensions: int) -> list[embedding_pb2.Embedding]:
    return [
        embedding_pb2.Embedding(index=index, values=_cut(vector, num_dimensions).tolist())
        for index, vector in enumerate(vectors)
    ]


def _cut(vector: Vector, num_dimensions: int) -> Vector:
    """The leading components, at unit length if that isn't all of them."""
    if num_dimensions == len(vector):
        return vector
    kept = vector[:num_dimensions]
    norm = np.maximum(np.linalg.norm(kept), np.float32(_MIN_NORM))
    unit: Vector = (kept / norm).astype(np.float32)
    return unit

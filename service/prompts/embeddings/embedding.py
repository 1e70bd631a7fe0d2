"""From texts to an encoder's input, and from its vectors to those that the request asks for.

Texts become tokens on worker threads, some at a time, so that a request of many or long ones holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.caller import ANONYMOUS, Caller
from service.generation.errors import InvalidRequest, PromptTooLong
from service.generation.prompts.conversation import RawText, RawTokens
from service.generation.requests.embedding import EmbeddingRequest, Purpose, TextsToEmbed, TokenIds, Vector
from service.prompts.embeddings.purpose import prompt_for
from service.prompts.preparing.chunk import read_in_chunks
from service.prompts.preparing.priority import check_priority

_NUM_THREADS = 2
_PROBE = "a"
_MIN_NORM = 1e-12  # of a vector of zeros, which stays one

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class EncoderForm:
    """What is particular about an encoder's texts and vectors.

    `prompts` stand before texts by what these are for, `default_prompt` where that isn't told. `dimensions` are the
    numbers of leading components that vectors may be cut to; None is any number.
    """

    lowers_case: bool = False  # before texts become tokens
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str = ""
    dimensions: Sequence[int] | None = None


class EmbeddingPrompts:
    """Prepares the embedding requests of one encoder and cuts its vectors."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_model_len: int,
        num_dimensions: int,
        form: EncoderForm = EncoderForm(),
    ) -> None:
        """`max_model_len` counts the tokens that the tokenizer adds to a text, too."""
        self.num_dimensions = num_dimensions
        self.pool = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="embedding-texts")
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._form = form
        self._prefix, self._suffix = _added_tokens(tokenizer)

    def close(self) -> None:
        """Stop the worker threads; no request may be prepared after."""
        self.pool.shutdown(wait=False, cancel_futures=True)

    async def prepare(
        self, asked: TextsToEmbed, request_id: str, deadline: float | None = None, caller: Caller = ANONYMOUS
    ) -> EmbeddingRequest:
        """Make a request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

        Raises InvalidRequest and PromptTooLong, naming the field.
        """
        check_priority(asked.priority, caller)
        self._check(asked)
        before = asked.instruction or self.prompt(asked.purpose)

        def read(indices: range) -> list[TokenIds]:
            return [self._token_ids(asked, before, asked.inputs[index]) for index in indices]

        sizes = [
            len(given.token_ids) if isinstance(given, RawTokens) else len(before) + len(given.text)
            for given in asked.inputs
        ]
        inputs = await read_in_chunks(self.pool, sizes, read)
        return EmbeddingRequest(request_id, inputs, deadline, caller.id, caller.weight, asked.priority)

    async def finish(
        self, vectors: Sequence[Vector], dimensions: int | None, render: Callable[[list[list[float]]], _Answer]
    ) -> _Answer:
        """`render` of the vectors with that many dimensions, on a thread: there may be millions of numbers."""
        num_dimensions = dimensions or self.num_dimensions

        def work() -> _Answer:
            return render([_cut(vector, num_dimensions).tolist() for vector in vectors])

        return await asyncio.get_running_loop().run_in_executor(self.pool, work)

    def prompt(self, purpose: Purpose) -> str:
        """What stands before a text that is for that."""
        return prompt_for(purpose, self._form.prompts, self._form.default_prompt)

    def encode(
        self, before: str, text: str, field: str, *, truncates: bool = False, max_tokens: int | None = None
    ) -> TokenIds:
        """The tokens of a text, those that the tokenizer adds among them; of the text itself at most `max_tokens`.

        Raises PromptTooLong for `field`, unless the text's end may be left out. On a worker thread.
        """
        whole = before + text
        ids = self._tokenizer.encode(whole.lower() if self._form.lowers_case else whole)
        if max_tokens is not None and len(ids) > max_tokens:
            num_before = len(self._tokenizer.encode(before)) if before else 0
            ids = ids[: num_before + max_tokens]
        return self._framed(self._prefix, ids, self._suffix, field, truncates=truncates)

    def _check(self, asked: TextsToEmbed) -> None:
        if asked.dimensions is not None:
            self._check_dimensions(asked.dimensions)
        for given in asked.inputs:
            if isinstance(given, RawTokens):
                if asked.instruction:
                    raise InvalidRequest("instruction", f"can't stand before {given.field}, which is of token ids")
            elif not given.text:
                raise InvalidRequest(f"{given.field}.text", "must not be empty")

    def _check_dimensions(self, dimensions: int) -> None:
        own, others = self.num_dimensions, self._form.dimensions
        if dimensions > own:
            raise InvalidRequest("dimensions", f"must be at most the model's own {own}, not {dimensions}")
        if others is None or dimensions == own or dimensions in others:
            return
        numbers = [*(number for number in others if number < own), own]
        if len(numbers) == 1:
            raise InvalidRequest(
                "dimensions",
                f"must be {own}: the model's vectors are not made to be cut, by its files and its settings",
            )
        raise InvalidRequest("dimensions", f"must be one of {', '.join(map(str, numbers))}, not {dimensions}")

    def _token_ids(self, asked: TextsToEmbed, before: str, given: RawText | RawTokens) -> TokenIds:
        """On a worker thread."""
        if isinstance(given, RawTokens):
            return self._framed([], given.token_ids, [], given.field, truncates=asked.truncates)
        return self.encode(before, given.text, given.field, truncates=asked.truncates)

    def _framed(
        self, prefix: Sequence[int], ids: Sequence[int], suffix: Sequence[int], field: str, *, truncates: bool
    ) -> TokenIds:
        num_tokens = len(prefix) + len(ids) + len(suffix)
        if num_tokens > self._max_model_len:
            if not truncates:
                raise PromptTooLong(field, num_tokens, self._max_model_len)
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


def _cut(vector: Vector, num_dimensions: int) -> Vector:
    """The leading components, at unit length if that isn't all of them."""
    if num_dimensions == len(vector):
        return vector
    kept = vector[:num_dimensions]
    norm = np.maximum(np.linalg.norm(kept), np.float32(_MIN_NORM))
    unit: Vector = (kept / norm).astype(np.float32)
    return unit

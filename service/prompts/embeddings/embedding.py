"""From texts to an encoder's input, and from its vectors to the requested vectors.

Texts are tokenized on worker threads in chunks, so that a request with many or long texts doesn't delay others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.caller import ANONYMOUS, Caller
from service.generation.errors import InvalidRequest, PromptTooLong
from service.generation.prompts.conversation import RawText, RawTokens
from service.generation.requests.embedding import EmbeddingRequest, Purpose, TextsToEmbed, TokenIds, Vector
from service.prompts.embeddings.purpose import prompt_for
from service.prompts.preparing.chunk import TextThreads
from service.prompts.preparing.priority import check_priority

_PROBE = "a"
_MIN_NORM = 1e-12  # a vector of zeros stays one

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class EncoderForm:
    """The properties of an encoder's texts and vectors.

    `prompts` are the prefixes of texts by purpose, `default_prompt` is the prefix without a purpose. `dimensions` are
    the numbers of leading components that vectors may be cut to; None allows any number.
    """

    lowers_case: bool = False  # before tokenization
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str = ""
    dimensions: Sequence[int] | None = None


class EmbeddingPrompts:
    """Prepares the embedding requests of one encoder, and cuts its vectors."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_model_len: int,
        num_dimensions: int,
        form: EncoderForm = EncoderForm(),
    ) -> None:
        """`max_model_len` includes the special tokens that the tokenizer adds to a text."""
        self.num_dimensions = num_dimensions
        self.threads = TextThreads("embedding-texts")
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._form = form
        self._prefix, self._suffix = _added_tokens(tokenizer)

    def close(self) -> None:
        """Stop the worker threads; no request may be prepared afterwards."""
        self.threads.close()

    async def prepare(
        self, texts: TextsToEmbed, request_id: str, deadline: float | None = None, caller: Caller = ANONYMOUS
    ) -> EmbeddingRequest:
        """Return a request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

        Raise InvalidRequest, or PromptTooLong, with the field's name.
        """
        check_priority(texts.priority, caller)
        self._check(texts)
        before = texts.instruction or self.prompt(texts.purpose)

        def read(indices: range) -> list[TokenIds]:
            return [self._token_ids(texts, before, texts.inputs[index]) for index in indices]

        sizes = [
            len(given.token_ids) if isinstance(given, RawTokens) else len(before) + len(given.text)
            for given in texts.inputs
        ]
        inputs = await self.threads.read(sizes, read)
        return EmbeddingRequest(
            request_id, inputs, deadline, caller.id, caller.weight, texts.priority, is_batch=caller.is_batch
        )

    async def finish(
        self, vectors: Sequence[Vector], dimensions: int | None, render: Callable[[list[list[float]]], _Answer]
    ) -> _Answer:
        """Return `render` of the vectors cut to `dimensions`, on a thread: there may be millions of numbers."""
        num_dimensions = dimensions or self.num_dimensions

        def work() -> _Answer:
            return render([_truncated(vector, num_dimensions).tolist() for vector in vectors])

        return await self.threads.run(work)

    def prompt(self, purpose: Purpose) -> str:
        """Return the prefix of a text for a purpose."""
        return prompt_for(purpose, self._form.prompts, self._form.default_prompt)

    def encode(
        self, before: str, text: str, field: str, *, truncates: bool = False, max_tokens: int | None = None
    ) -> TokenIds:
        """Return the tokens of a text, including the special ones; the text itself has at most `max_tokens`.

        Raise PromptTooLong for `field`, unless the text may be truncated at its end. Call it on a worker thread.
        """
        whole = before + text
        ids = self._tokenizer.encode(whole.lower() if self._form.lowers_case else whole)
        if max_tokens is not None and len(ids) > max_tokens:
            num_before = len(self._tokenizer.encode(before)) if before else 0
            ids = ids[: num_before + max_tokens]
        return self._framed(self._prefix, ids, self._suffix, field, truncates=truncates)

    def _check(self, texts: TextsToEmbed) -> None:
        """Raise InvalidRequest for inputs or dimensions that the model can't take."""
        if texts.dimensions is not None:
            self._check_dimensions(texts.dimensions)
        for given in texts.inputs:
            if isinstance(given, RawTokens):
                if texts.instruction:
                    raise InvalidRequest("instruction", f"can't precede {given.field}, which has token ids")
            elif not given.text:
                raise InvalidRequest(f"{given.field}.text", "must not be empty")

    def _check_dimensions(self, dimensions: int) -> None:
        """Raise InvalidRequest unless the vectors can be cut to `dimensions`."""
        model_dimensions, others = self.num_dimensions, self._form.dimensions
        if dimensions > model_dimensions:
            raise InvalidRequest("dimensions", f"must be at most the model's own {model_dimensions}, not {dimensions}")
        if others is None or dimensions == model_dimensions or dimensions in others:
            return
        numbers = [*(number for number in others if number < model_dimensions), model_dimensions]
        if len(numbers) == 1:
            raise InvalidRequest(
                "dimensions",
                f"must be {model_dimensions}: the model's vectors can't be truncated, by its files and settings",
            )
        raise InvalidRequest("dimensions", f"must be one of {', '.join(map(str, numbers))}, not {dimensions}")

    def _token_ids(self, texts: TextsToEmbed, before: str, given: RawText | RawTokens) -> TokenIds:
        """Return the tokens of an input. Call it on a worker thread."""
        if isinstance(given, RawTokens):
            return self._framed([], given.token_ids, [], given.field, truncates=texts.truncates)
        return self.encode(before, given.text, given.field, truncates=texts.truncates)

    def _framed(
        self, prefix: Sequence[int], ids: Sequence[int], suffix: Sequence[int], field: str, *, truncates: bool
    ) -> TokenIds:
        """Return ids between `prefix` and `suffix`, truncated if allowed. Raise PromptTooLong for `field`."""
        num_tokens = len(prefix) + len(ids) + len(suffix)
        if num_tokens > self._max_model_len:
            if not truncates:
                raise PromptTooLong(field, num_tokens, self._max_model_len)
            ids = ids[: self._max_model_len - len(prefix) - len(suffix)]
        return np.array([*prefix, *ids, *suffix], dtype=np.int64)


def _added_tokens(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the special tokens that the tokenizer puts before and after a text, such as [CLS] and [SEP]."""
    plain, whole = tokenizer.encode(_PROBE), tokenizer.encode(_PROBE, add_special_tokens=True)
    for start in range(len(whole) - len(plain) + 1):
        end = start + len(plain)
        if whole[start:end] == plain:
            return whole[:start], whole[end:]
    raise ValueError("the tokenizer changes a text's own tokens when it adds special ones")


def _truncated(vector: Vector, num_dimensions: int) -> Vector:
    """Return the leading components of a vector, normalised if there are more."""
    if num_dimensions == len(vector):
        return vector
    kept = vector[:num_dimensions]
    norm = np.maximum(np.linalg.norm(kept), np.float32(_MIN_NORM))
    unit: Vector = (kept / norm).astype(np.float32)
    return unit

"""The backend of decoders whose state is not, or not only, standard keys and values. It computes text after text.

Each sequence has its own transformers cache; blocks only count its tokens and hold no data. So models whose attention
cannot be replaced, and models with a recurrent state, are supported too.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from service.engine.core.batch import Batch
from service.engine.models.checkpoint.adapter_files import Adapter
from service.engine.models.checkpoint.text_part import text_config
from service.engine.models.torch.thread import prepare_thread
from service.generation.errors import ModelLoadError

_STATE: Final = "state"  # a state that is returned with the logits and passed with the next tokens
_CACHE_NAMES: Final = ("past_key_values", "cache_params", _STATE)
_TRIAL: Final = 12  # tokens
_CHUNK_BOUNDARIES: Final = (0, 5, 6, 9, 12)  # chunk boundaries of the trial
_TOLERANCE: Final = {torch.float32: 0.01, torch.float16: 0.2, torch.bfloat16: 0.2}  # relative to the norm of the logits
_ROUNDING: Final = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 2e-3}  # differences below it are rounding


class RowsBackend:
    """A Backend that runs any causal language model of transformers, with a cache per sequence slot."""

    def __init__(self, model: Any) -> None:
        """Compare a text computed whole and in chunks. Raise ModelLoadError if the cache cannot continue a text."""
        self._model = model.eval()
        parameters = inspect.signature(model.forward).parameters
        self._cache_name = next((name for name in _CACHE_NAMES if name in parameters), None)
        self._takes_rows = "logits_to_keep" in parameters
        self._kept: dict[int, Any] = {}
        self._takes_chunks = True
        self._takes_positions = "position_ids" in parameters
        self._passes_positions = False  # most models derive positions from their cache
        self._try()

    def bytes_per_block(self, block_size: int) -> int:
        """Return the bytes that `block_size` tokens take in a sequence's cache, if it grows with the length."""
        return self._bytes_per_token * block_size

    @property
    def bytes_per_sequence(self) -> int:
        """The bytes of a sequence's cache that do not depend on its length."""
        return self._bytes_per_sequence

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Do nothing, because caches grow with their sequences."""

    def put_adapter(self, slot: int, adapter: Adapter) -> None:
        """Raise AdapterRejected, because adapters are not supported."""
        raise adapter.rejection(f"slot {slot}", "adapters are not supported for models without the paged cache")

    def drop_adapter(self, slot: int) -> None:
        """Raise KeyError, because adapters are not supported."""
        raise KeyError(slot)

    def prepare_thread(self, num_threads: int | None) -> None:
        """Configure the calling thread; with `num_threads` None torch chooses the number."""
        prepare_thread(num_threads)

    @property
    def splits_states(self) -> bool:
        """False, because a sequence has one cache."""
        return False

    def allocate_states(self, num_states: int) -> None:
        """Do nothing, because a sequence's cache is created when it starts."""

    def forget(self, slot: int) -> None:
        """Drop the cache of a sequence, if any."""
        self._kept.pop(slot, None)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """Compute the sequences one after the other, and return the logits, float32 [output rows, vocabulary]."""
        token_ids = torch.from_numpy(batch.token_ids.astype(np.int64)).to(self._model.device)
        found = []
        for slot, (first, end) in zip(_slots(batch), pairwise(batch.row_offsets.tolist()), strict=True):
            if batch.positions[first] == 0:
                self._kept[slot] = self._new_cache()
            rows = batch.output_rows[(batch.output_rows >= first) & (batch.output_rows < end)] - first
            indices = torch.from_numpy(rows.astype(np.int64)).to(token_ids.device)
            found.append(self._continue(self._kept[slot], token_ids[first:end], indices, int(batch.positions[first])))
        return torch.cat(found)

    def _new_cache(self) -> Any:
        if self._cache_name == _STATE:
            return {_STATE: None}
        own = _own_cache(self._model)
        return DynamicCache(config=text_config(self._model.config)) if own is None else own

    def _continue(self, cache: Any, token_ids: Tensor, rows: Tensor, start: int) -> Tensor:
        """Continue the text in `cache` with `token_ids`, and return float32 logits for `rows` of them."""
        if start == 0 or self._takes_chunks or len(token_ids) == 1:
            return self._run(cache, token_ids, rows, start)
        nothing = rows[:0]
        first = torch.zeros_like(rows[:1])
        each = [
            self._run(cache, token_ids[index : index + 1], first if index in rows else nothing, start + index)
            for index in range(len(token_ids))
        ]
        return torch.cat(each)

    def _run(self, cache: Any, token_ids: Tensor, rows: Tensor, start: int) -> Tensor:
        """Compute one sequence's tokens from `start` on, and return the logits of `rows`."""
        given: dict[str, Any] = {"logits_to_keep": rows if len(rows) else 1} if self._takes_rows else {}
        if self._passes_positions:
            given["position_ids"] = torch.arange(start, start + len(token_ids), device=token_ids.device)[None]
        given |= cache if self._cache_name == _STATE else {str(self._cache_name): cache}
        output = self._model(input_ids=token_ids[None], use_cache=True, **given)
        if self._cache_name == _STATE:
            cache[_STATE] = output[_STATE]
        logits = output.logits[0]
        if not self._takes_rows:
            return logits.index_select(0, rows).float()  # type: ignore[no-any-return]
        return logits[: len(rows)].float()  # type: ignore[no-any-return]

    @torch.inference_mode()
    def _try(self) -> None:
        name = self._model.config.model_type
        reason = "its cache is of an unknown kind" if self._cache_name is None else None
        if reason is None:
            try:
                can_continue = self._can_continue()
                if not can_continue and self._takes_positions:
                    self._passes_positions = True
                    can_continue = self._can_continue()
                reason = None if can_continue else "its cache cannot continue a text"
            except Exception as error:  # noqa: BLE001  any error of the model's code
                output = type(self._model).__name__
                reason = f"transformers' {output} can't compute a trial text of tokens: {type(error).__name__}: {error}"
        if reason is not None:
            raise ModelLoadError(f"the architecture {name} is not supported: {reason}")

    def _can_continue(self) -> bool:
        """Return True if a text in parts has the logits of the whole; set whether parts may exceed one token."""
        self._takes_chunks = True
        in_chunks = self._difference_in_chunks()
        self._takes_chunks = False
        one_by_one = self._difference()
        # A recurrence that restarts in each chunk can differ by less than `_TOLERANCE`, so `_ROUNDING` is compared.
        rounding = _ROUNDING.get(self._model.dtype, _ROUNDING[torch.bfloat16])
        self._takes_chunks = in_chunks <= max(2 * one_by_one, rounding)
        bound = _TOLERANCE.get(self._model.dtype, _TOLERANCE[torch.bfloat16])
        return (in_chunks if self._takes_chunks else one_by_one) <= bound

    def _difference_in_chunks(self) -> float:
        try:
            return self._difference()
        except Exception:  # noqa: BLE001  a model that fails with chunks may work with single tokens
            return math.inf

    def _difference(self) -> float:
        """Return the relative difference of logits of two interleaved texts in chunks to whole ones.

        It also measures the bytes of their caches.
        """
        device = self._model.device
        count = text_config(self._model.config).vocab_size
        texts = [(torch.arange(_TRIAL, device=device) * step + 3) % count for step in (1, 2)]
        every = torch.arange(_TRIAL, device=device)
        whole = [self._run(self._new_cache(), text, every, 0) for text in texts]
        caches = [self._new_cache() for _ in texts]
        chunks: list[list[Tensor]] = [[] for _ in texts]
        sizes = []
        for first, end in pairwise(_CHUNK_BOUNDARIES):
            for text, cache, output in zip(texts, caches, chunks, strict=True):
                output.append(self._continue(cache, text[first:end], every[: end - first], first))
            sizes.append(sum(tensor.nbytes for tensor in _tensors(caches[0])))
        self._bytes_per_token = -(-(sizes[-1] - sizes[0]) // (_CHUNK_BOUNDARIES[-1] - _CHUNK_BOUNDARIES[1]))
        self._bytes_per_sequence = max(0, sizes[0] - self._bytes_per_token * _CHUNK_BOUNDARIES[1])
        return max(
            float((torch.cat(output) - expected).norm() / expected.norm())
            for output, expected in zip(chunks, whole, strict=True)
        )


def _slots(batch: Batch) -> list[int]:
    if batch.states is None:
        raise ValueError("the batch has no slots of states")
    slots: list[int] = batch.states[:, 1].tolist()
    return slots


def _own_cache(model: Any) -> Any:
    """Return a new cache of the model's own cache class, or None if it uses a standard one."""
    module = sys.modules[type(model).__module__]
    name = type(model).__name__.removesuffix("ForCausalLM") + "Cache"
    found = getattr(module, name, None)
    if found is None:
        return None
    needed = {"config": model.config, "max_batch_size": 1, "dtype": model.dtype, "device": model.device}
    takes = inspect.signature(found).parameters
    return found(**{key: value for key, value in needed.items() if key in takes})


def _tensors(kept: Any) -> Iterator[Tensor]:
    """Yield all tensors of a cache, including those in nested lists and dicts."""
    if isinstance(kept, Tensor):
        yield kept
    elif isinstance(kept, dict):
        for each in kept.values():
            yield from _tensors(each)
    elif isinstance(kept, list | tuple):
        for each in kept:
            yield from _tensors(each)
    elif type(kept).__module__.startswith("transformers.") and hasattr(kept, "__dict__"):
        yield from _tensors(vars(kept))

"""Decoders whose state is more than keys and values, or is kept in another way: one text after another.

Each sequence has a cache of transformers' own kind beside the blocks, which count its tokens and hold nothing: so what
has no attention to replace is served too, and what keeps a recurrent state.
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

_HANDED_ON: Final = "state"  # which comes with the logits and is given with the next tokens
_CACHE_NAMES: Final = ("past_key_values", "cache_params", _HANDED_ON)
_TRIAL: Final = 12  # tokens
_CUTS: Final = (0, 5, 6, 9, 12)  # of them
_TOLERANCE: Final = {torch.float32: 0.01, torch.float16: 0.2, torch.bfloat16: 0.2}  # of the logits' norm
_ROUNDING: Final = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 2e-3}  # so much is no difference


class RowsBackend:
    """A Backend around any causal language model of transformers. What it keeps of a sequence goes by its place."""

    def __init__(self, model: Any) -> None:
        """Try a text whole and in pieces. Raises ModelLoadError for a model whose cache doesn't go on with a text."""
        self._model = model.eval()
        parameters = inspect.signature(model.forward).parameters
        self._cache_name = next((name for name in _CACHE_NAMES if name in parameters), None)
        self._takes_rows = "logits_to_keep" in parameters
        self._kept: dict[int, Any] = {}
        self._takes_pieces = True
        self._takes_positions = "position_ids" in parameters
        self._tells_positions = False  # most know from their cache how many tokens came before
        self._try()

    def bytes_per_block(self, block_size: int) -> int:
        """Bytes that `block_size` tokens take in a sequence's own cache, where those grow with its length."""
        return self._bytes_per_token * block_size

    @property
    def bytes_per_sequence(self) -> int:
        """Bytes that a sequence takes however long it is."""
        return self._bytes_per_sequence

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Nothing: caches grow with their sequences."""

    def put_adapter(self, place: int, adapter: Adapter) -> None:
        """Raises AdapterRefused: it has no adapters."""
        raise adapter.refuse(f"place {place}", "a model whose texts are computed one after the other has no adapters")

    def drop_adapter(self, place: int) -> None:
        """Raises KeyError: it has no adapters."""
        raise KeyError(place)

    def prepare_thread(self, num_threads: int | None) -> None:
        """Set what the calling thread needs; `num_threads` None leaves torch's own number."""
        prepare_thread(num_threads)

    def forget(self, place: int) -> None:
        """Drop what is kept of a sequence, if anything is."""
        self._kept.pop(place, None)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """Compute the sequences one after the other and return the logits, float32 [output rows, vocabulary]."""
        token_ids = torch.from_numpy(batch.token_ids.astype(np.int64)).to(self._model.device)
        found = []
        for place, (first, end) in zip(batch.slots, pairwise(batch.row_offsets.tolist()), strict=True):
            if batch.positions[first] == 0:
                self._kept[place] = self._new_cache()
            rows = batch.output_rows[(batch.output_rows >= first) & (batch.output_rows < end)] - first
            wanted = torch.from_numpy(rows.astype(np.int64)).to(token_ids.device)
            found.append(self._go_on(self._kept[place], token_ids[first:end], wanted, int(batch.positions[first])))
        return torch.cat(found)

    def _new_cache(self) -> Any:
        if self._cache_name == _HANDED_ON:
            return {_HANDED_ON: None}
        own = _own_cache(self._model)
        return DynamicCache(config=text_config(self._model.config)) if own is None else own

    def _go_on(self, cache: Any, token_ids: Tensor, rows: Tensor, start: int) -> Tensor:
        """The logits of some of the tokens, float32, which come after those that `cache` has."""
        if start == 0 or self._takes_pieces or len(token_ids) == 1:
            return self._run(cache, token_ids, rows, start)
        nothing = rows[:0]
        first = torch.zeros_like(rows[:1])
        each = [
            self._run(cache, token_ids[index : index + 1], first if index in rows else nothing, start + index)
            for index in range(len(token_ids))
        ]
        return torch.cat(each)

    def _run(self, cache: Any, token_ids: Tensor, rows: Tensor, start: int) -> Tensor:
        given: dict[str, Any] = {"logits_to_keep": rows if len(rows) else 1} if self._takes_rows else {}
        if self._tells_positions:
            given["position_ids"] = torch.arange(start, start + len(token_ids), device=token_ids.device)[None]
        given |= cache if self._cache_name == _HANDED_ON else {str(self._cache_name): cache}
        made = self._model(input_ids=token_ids[None], use_cache=True, **given)
        if self._cache_name == _HANDED_ON:
            cache[_HANDED_ON] = made[_HANDED_ON]
        logits = made.logits[0]
        if not self._takes_rows:
            return logits.index_select(0, rows).float()  # type: ignore[no-any-return]
        return logits[: len(rows)].float()  # type: ignore[no-any-return]

    @torch.inference_mode()
    def _try(self) -> None:
        name = self._model.config.model_type
        reason = "it keeps what it has read in a way of its own" if self._cache_name is None else None
        if reason is None:
            try:
                goes_on = self._goes_on()
                if not goes_on and self._takes_positions:
                    self._tells_positions = True
                    goes_on = self._goes_on()
                reason = None if goes_on else "what it keeps of a text does not let it go on with the text"
            except Exception as error:  # noqa: BLE001  whatever foreign code can't do with this call
                made = type(self._model).__name__
                reason = f"transformers' {made} can't compute a trial text of tokens: {type(error).__name__}: {error}"
        if reason is not None:
            raise ModelLoadError(f"the architecture {name} can't be served: {reason}")

    def _goes_on(self) -> bool:
        """Whether a text by parts gets a whole one's logits; notes whether the parts may be more than single tokens."""
        self._takes_pieces = True
        in_pieces = self._difference_in_pieces()
        self._takes_pieces = False
        one_by_one = self._difference()
        # A recurrence that begins anew in each piece is off by less than a tolerance of rounding allows.
        rounding = _ROUNDING.get(self._model.dtype, _ROUNDING[torch.bfloat16])
        self._takes_pieces = in_pieces <= max(2 * one_by_one, rounding)
        bound = _TOLERANCE.get(self._model.dtype, _TOLERANCE[torch.bfloat16])
        return (in_pieces if self._takes_pieces else one_by_one) <= bound

    def _difference_in_pieces(self) -> float:
        try:
            return self._difference()
        except Exception:  # noqa: BLE001  what it can't do with a piece it may do with single tokens
            return math.inf

    def _difference(self) -> float:
        """How far two texts by turns, in pieces, are from their logits whole, by the norm. Notes what they take."""
        device = self._model.device
        count = text_config(self._model.config).vocab_size
        texts = [(torch.arange(_TRIAL, device=device) * step + 3) % count for step in (1, 2)]
        every = torch.arange(_TRIAL, device=device)
        whole = [self._run(self._new_cache(), text, every, 0) for text in texts]
        caches = [self._new_cache() for _ in texts]
        pieces: list[list[Tensor]] = [[] for _ in texts]
        sizes = []
        for first, end in pairwise(_CUTS):
            for text, cache, made in zip(texts, caches, pieces, strict=True):
                made.append(self._go_on(cache, text[first:end], every[: end - first], first))
            sizes.append(sum(tensor.nbytes for tensor in _tensors(caches[0])))
        self._bytes_per_token = -(-(sizes[-1] - sizes[0]) // (_CUTS[-1] - _CUTS[1]))
        self._bytes_per_sequence = max(0, sizes[0] - self._bytes_per_token * _CUTS[1])
        return max(
            float((torch.cat(made) - expected).norm() / expected.norm())
            for made, expected in zip(pieces, whole, strict=True)
        )


def _own_cache(model: Any) -> Any:
    """A new cache of the class that the model's module has for it; None if it takes a usual one."""
    module = sys.modules[type(model).__module__]
    name = type(model).__name__.removesuffix("ForCausalLM") + "Cache"
    found = getattr(module, name, None)
    if found is None:
        return None
    needed = {"config": model.config, "max_batch_size": 1, "dtype": model.dtype, "device": model.device}
    takes = inspect.signature(found).parameters
    return found(**{key: value for key, value in needed.items() if key in takes})


def _tensors(kept: Any) -> Iterator[Tensor]:
    """All tensors of a cache: its layers' own, and those in their lists and tables."""
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

"""Any other decoder: transformers' own modules over the paged cache.

Their attention is replaced by the engine's, through transformers' attention interface. The replacement finds the
running step in the arguments that the modules hand down, so nothing global changes from step to step.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from service.engine.batch import Batch
from service.engine.kv_cache import CacheShape, KVCache
from service.engine.models.attention import AttentionPlan
from service.engine.models.inputs import Inputs
from service.engine.models.text_part import text_config
from service.engine.models.thread import prepare_thread
from service.generation.errors import ModelLoadError

ATTENTION = "sluice_paged"


class ModulesBackend:
    """A Backend around a causal language model of transformers that was loaded with `ATTENTION`."""

    def __init__(self, model: Any) -> None:
        """Run one token to see what each layer stores. Raises ModelLoadError if a layer can't be served."""
        self._model = model.eval()
        self._takes_rows = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._cache_shape = _cache_shape(model)
        self._cache: KVCache | None = None

    def bytes_per_block(self, block_size: int) -> int:
        """Bytes of cache for the keys and values of `block_size` tokens."""
        return self._cache_shape.bytes_per_slot * block_size

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Make the cache, once, before the first step."""
        self._cache = KVCache(self._cache_shape, num_blocks, block_size, self._model.device)

    def prepare_thread(self, num_threads: int | None) -> None:
        """Set what the calling thread needs; `num_threads` None leaves torch's own number."""
        prepare_thread(num_threads)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """Store the batch's keys and values and return the logits, float32 [output rows, vocabulary]."""
        if self._cache is None:
            raise RuntimeError("allocate() comes before forward()")
        inputs = Inputs.of(batch, self._cache.block_size, self._cache.device)
        rows = {"logits_to_keep": inputs.output_rows} if self._takes_rows else {}
        logits: Tensor = self._model(
            **self._words(batch, inputs),
            position_ids=inputs.positions[None],
            use_cache=False,
            paged_step=_PagedStep(self._cache, batch, inputs.slots),
            **rows,
        ).logits[0]
        return (logits if self._takes_rows else logits.index_select(0, inputs.output_rows)).float()

    def _words(self, batch: Batch, inputs: Inputs) -> dict[str, Tensor]:
        """What the model reads in the batch's places, by the name that its forward has for it."""
        del batch
        return {"input_ids": inputs.token_ids[None]}


class _PagedStep:
    """Attention of one step: stores a layer's keys and values and attends over the cache."""

    def __init__(self, cache: KVCache, batch: Batch, slots: Tensor) -> None:
        self._cache = cache
        self._batch = batch
        self._slots = slots
        self._plans: dict[tuple[float, int | None], AttentionPlan] = {}

    def attend(  # noqa: PLR0917
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None
    ) -> Tensor:
        """Tensors [tokens, heads, head dim]."""
        self._cache.write(layer, self._slots, torch.cat((key, value), dim=1))
        plan = self._plans.get((scale, window))
        if plan is None:
            plan = self._plans[scale, window] = AttentionPlan(self._cache, self._batch, scale, window)
        return plan(layer, query)


@dataclass(slots=True)
class _Probe:
    """Stands in for a step at load and notes the shape of what each layer would store."""

    stored: dict[int, tuple[int, int]] = field(default_factory=dict)  # layer → (kv heads, head dim)

    def attend(  # noqa: PLR0917
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None
    ) -> Tensor:
        del scale, window
        if key.shape != value.shape:
            raise ModelLoadError("its keys and values differ in shape")
        if layer in self.stored:
            raise ModelLoadError(f"layer {layer} attends twice")
        self.stored[layer] = (key.shape[1], key.shape[2])
        return torch.zeros_like(query)


def _paged_attention(  # noqa: PLR0917
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    *,
    paged_step: _PagedStep | _Probe | None = None,
    **extra: Any,
) -> tuple[Tensor, None]:
    """The function behind `ATTENTION`: tensors [1, heads, tokens, head dim] in, [1, tokens, heads, head dim] out."""
    if paged_step is None:
        raise ModelLoadError("its layers do not hand the step down to their attention")
    for name in ("softcap", "s_aux", "position_bias"):
        if extra.get(name) is not None:
            raise ModelLoadError(f"its attention uses {name}")
    if attention_mask is not None or extra.get("is_causal") is False:
        raise ModelLoadError("its attention is not causal")
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    return paged_step.attend(module.layer_idx, query, key, value, scale, sliding_window)[None], None


def register_attention() -> None:
    """Make `ATTENTION` known to transformers. Repeating it changes nothing."""
    AttentionInterface.register(ATTENTION, _paged_attention)


@torch.inference_mode()
def _cache_shape(model: Any) -> CacheShape:
    probe = _Probe()
    token = torch.zeros((1, 1), dtype=torch.int64, device=model.device)
    name = model.config.model_type
    try:
        model(input_ids=token, position_ids=token, use_cache=False, paged_step=probe)
    except ModelLoadError as error:
        raise ModelLoadError(f"the architecture {name} can't be served: {error}") from error
    except Exception as error:  # whatever foreign code can't do with this call
        raise ModelLoadError(f"the architecture {name} can't be served: a trial step failed: {error}") from error
    num_layers = text_config(model.config).num_hidden_layers
    if sorted(probe.stored) != list(range(num_layers)):
        raise ModelLoadError(
            f"the architecture {name} can't be served: {len(probe.stored)} of its {num_layers} layers attend"
        )
    if len(set(probe.stored.values())) != 1:
        raise ModelLoadError(f"the architecture {name} can't be served: its layers store keys of different shapes")
    num_kv_heads, head_dim = probe.stored[0]
    return CacheShape(num_layers, num_kv_heads, head_dim, model.dtype)

"""The backend of other decoders: transformers' models over the paged cache, with all rows of a step in one pass."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from service.engine.core.batch import Batch
from service.engine.models.attention.inputs import Inputs
from service.engine.models.checkpoint.adapter_files import Adapter
from service.engine.models.checkpoint.text_part import text_config
from service.engine.models.modules.module_adapters import ModuleAdapters
from service.engine.models.modules.paged_attention import LayeredCache, LayerShape, PagedStep, Trial, UnpagedError
from service.engine.models.torch.thread import prepare_thread


class ModulesBackend:
    """A Backend that runs a causal language model of transformers that was loaded with `ATTENTION`."""

    def __init__(self, model: Any) -> None:
        """Run one token to find the cache shape of each layer. Raise UnpagedError for an unsupported layer."""
        self._model = model.eval()
        self._takes_rows = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._shapes = _layer_shapes(model)
        self._cache: LayeredCache | None = None
        self._adapters = ModuleAdapters(self._model)

    def bytes_per_block(self, block_size: int) -> int:
        """Return the cache bytes for the keys and values of `block_size` tokens."""
        numbers = sum(shape.num_kv_heads * (shape.head_dim + shape.value_dim) for shape in self._shapes)
        return numbers * int(self._model.dtype.itemsize) * block_size

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Allocate the cache, once, before the first step."""
        self._cache = LayeredCache(self._shapes, self._model.dtype, num_blocks, block_size, self._model.device)

    def put_adapter(self, slot: int, adapter: Adapter) -> None:
        """Store an adapter in a slot, for batches that refer to the slot. Raise AdapterRejected if unsupported."""
        self._adapters.put(slot, adapter)

    def drop_adapter(self, slot: int) -> None:
        """Remove the adapter of a slot."""
        self._adapters.drop(slot)

    def prepare_thread(self, num_threads: int | None) -> None:
        """Configure the calling thread; with `num_threads` None torch chooses the number."""
        prepare_thread(num_threads)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """Store the batch's keys and values, and return the logits, float32 [output rows, vocabulary]."""
        if self._cache is None:
            raise RuntimeError("allocate() must be called before forward()")
        inputs = Inputs.from_batch(batch, self._cache.block_size, self._cache.device)
        self._adapters.begin(batch)
        rows = {"logits_to_keep": inputs.output_rows} if self._takes_rows else {}
        logits: Tensor = self._model(
            **self._token_inputs(batch, inputs),
            position_ids=inputs.positions[None],
            use_cache=False,
            paged_step=PagedStep(self._cache, batch, inputs.slots),
            **rows,
        ).logits[0]
        return (logits if self._takes_rows else logits.index_select(0, inputs.output_rows)).float()

    def _token_inputs(self, batch: Batch, inputs: Inputs) -> dict[str, Tensor]:
        """Return the token inputs of the model's forward pass, by argument name."""
        del batch
        return {"input_ids": inputs.token_ids[None]}


@torch.inference_mode()
def _layer_shapes(model: Any) -> list[LayerShape]:
    """Return the cache shape of each layer, from a trial step. Raise UnpagedError if the model can't be paged."""
    trial = Trial()
    token = torch.zeros((1, 1), dtype=torch.int64, device=model.device)
    try:
        model(input_ids=token, position_ids=token, use_cache=False, paged_step=trial)
    except UnpagedError:
        raise
    except Exception as error:  # any error of the model's code
        raise UnpagedError(f"a trial step failed: {error}") from error
    config = text_config(model.config)
    if getattr(config, "sliding_window", None) is not None and not trial.has_windows:
        raise UnpagedError("only its masks implement its sliding windows")
    num_layers = config.num_hidden_layers
    if sorted(trial.stored) != list(range(num_layers)):
        raise UnpagedError(f"{len(trial.stored)} of its {num_layers} layers call attention")
    return [trial.stored[layer] for layer in range(num_layers)]

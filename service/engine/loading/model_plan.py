"""Plan a model's load before any weight is read: its backend, its types and its maximum length."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from service.engine.interface.config import EngineConfig
from service.engine.interface.description import ComputeDtype
from service.engine.loading.model_folder import find_folder
from service.engine.loading.model_source import choose_block_size, choose_device, choose_max_model_len, num_cores
from service.engine.models.checkpoint.compute_dtype import choose_compute_dtype
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.checkpoint.text_part import open_checkpoint, text_config
from service.engine.models.interface.model_spec import AUTO, ModelSpec
from service.engine.models.selection.backends import BackendRow, choose_backend
from service.engine.tokens.read_table import read_token_table
from service.engine.tokens.token_table import TokenTable
from service.generation.errors import ModelLoadError

_TEXT_ONLY: Final = ("native", "torch")  # backends that take no images


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """The decisions about a model that can be made without its weights."""

    folder: Path
    spec: ModelSpec
    backend: BackendRow
    tokens: TokenTable


def plan_model(model: str, config: EngineConfig, compute_dtype: ComputeDtype, device: str) -> ModelPlan:
    """Plan the load of a model. Raise ModelLoadError if it cannot be loaded."""
    target = choose_device(device)
    folder = find_folder(model)
    model_config = read_model_config(folder, keeps_images=config.backend not in _TEXT_ONLY)
    max_model_len = choose_max_model_len(model_config, config.max_model_len, folder)
    tokens = read_token_table(folder)
    vocab_size = getattr(text_config(model_config), "vocab_size", None)
    if vocab_size is None:
        raise ModelLoadError(f"{folder}: a {model_config.model_type} has no vocabulary, so it cannot generate text")
    if tokens.vocab_size > vocab_size:
        raise ModelLoadError(f"{folder}: the tokenizer has {tokens.vocab_size} ids, the model only {vocab_size}")
    checkpoint = open_checkpoint(folder, model_config)
    if config.quantization and compute_dtype == "float32":
        raise ModelLoadError(f"{folder}: with engine.quantization {config.quantization}, dtype can't be float32")
    dtype = choose_compute_dtype(compute_dtype, checkpoint.dtype, target)
    spec = ModelSpec(
        model_config,
        checkpoint,
        dtype,
        target,
        max_model_len,
        config.block_size or choose_block_size(target),
        config.quantization,
        config.num_threads or num_cores(),
        config.tensor_parallel,
        config.max_adapters or 0,
        config.max_batch_sequences,
        config.batch_invariant,
        kv_cache_dtype=config.kv_cache_dtype,
    )
    backend = choose_backend(spec, config.backend)
    return ModelPlan(folder, _with_cache_dtype(spec, backend, compute_dtype), backend, tokens)


def _with_cache_dtype(spec: ModelSpec, backend: BackendRow, compute_dtype: ComputeDtype) -> ModelSpec:
    """Return the specification with float16 keys and values for weights in blocks, whose products are almost exact."""
    is_open = spec.kv_cache_dtype == AUTO and compute_dtype == AUTO and spec.quantization is None
    if is_open and backend.takes_blocks(spec):
        return replace(spec, kv_cache_dtype="float16")
    return spec

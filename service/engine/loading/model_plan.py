"""Plan a model's load before any weight is read: its backend, its types and its maximum length."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from service.engine.interface.config import EngineConfig
from service.engine.interface.description import ComputeDtype
from service.engine.loading.model_folder import find_folder
from service.engine.loading.model_source import choose_block_size, choose_device, choose_max_model_len, num_cores
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.compute_dtype import choose_compute_dtype
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.checkpoint.text_part import open_checkpoint, text_config
from service.engine.models.interface.model_spec import AUTO, ModelSpec
from service.engine.models.selection.backends import BackendRow, choose_backend
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """The decisions about a model that can be made without its weights."""

    folder: Path
    spec: ModelSpec
    backend: BackendRow
    tokenizer: FastTokenizer


def plan_model(model: str, config: EngineConfig, compute_dtype: ComputeDtype, device: str) -> ModelPlan:
    """Plan the load of a model. Raise ModelLoadError if it cannot be loaded."""
    target = choose_device(device)
    folder = find_folder(model)
    model_config = read_model_config(folder)
    max_model_len = choose_max_model_len(model_config, config.max_model_len, folder)
    tokenizer = FastTokenizer.from_folder(folder)
    vocab_size = getattr(text_config(model_config), "vocab_size", None)
    if vocab_size is None:
        raise ModelLoadError(f"{folder}: a {model_config.model_type} has no vocabulary, so it cannot generate text")
    if tokenizer.vocab_size > vocab_size:
        raise ModelLoadError(f"{folder}: the tokenizer has {tokenizer.vocab_size} ids, the model only {vocab_size}")
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
        kv_cache_dtype=_cache_dtype(config, checkpoint, compute_dtype, target),
    )
    return ModelPlan(folder, spec, choose_backend(spec, config.backend), tokenizer)


def _cache_dtype(config: EngineConfig, checkpoint: Checkpoint, compute_dtype: ComputeDtype, device: str) -> str:
    """Return the type of keys and values. With weights in blocks, whose products are almost exact, it is float16."""
    is_open = config.kv_cache_dtype == AUTO and compute_dtype == AUTO and device == "cpu"
    return "float16" if is_open and checkpoint.block_type is not None else config.kv_cache_dtype

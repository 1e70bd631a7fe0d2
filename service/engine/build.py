"""From a model's name to an engine that can start.

Owns the loading of one model and the sizes that follow from it: context length, vocabulary, number of cache blocks.
Runs once per model at start, before any thread of the engine; knows no transport.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from transformers import AutoConfig, GenerationConfig

from service.engine.config import EngineConfig
from service.engine.engine import Engine, StepObserver
from service.engine.errors import ModelLoadError
from service.engine.memory import cache_bytes
from service.engine.model_runner import ModelRunner
from service.engine.models.checkpoint import Checkpoint
from service.engine.models.compute_dtype import ComputeDtype, choose_compute_dtype
from service.engine.models.load import load_backend
from service.engine.models.progress import load_progress
from service.engine.tokenizer import FastTokenizer

_MIN_THREADED_PARAMETERS = 50_000_000
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What there is to know about a loaded model."""

    architecture: str  # the class name that the configuration gives, or its model type
    max_model_len: int  # tokens of prompt and answer together
    vocab_size: int  # of the logits; the tokenizer may use less
    dtype: str  # of the arithmetic, such as "float32"
    device: str
    num_parameters: int  # as stored; a tied head counts once
    fingerprint: str  # changes with the weights, the configuration, the compute type and the version of torch


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """A model ready to serve. The engine is not started."""

    engine: Engine
    runner: ModelRunner
    tokenizer: FastTokenizer
    config: EngineConfig  # with nothing left None
    info: ModelInfo
    folder: Path  # where the model's files lie, its chat template among them
    eos_token_ids: frozenset[int]


def build_engine(
    model: str,
    config: EngineConfig,
    *,
    compute_dtype: ComputeDtype = "auto",
    device: str = "auto",
    observer: StepObserver | None = None,
) -> BuiltEngine:
    """Load `model`, a folder or a hub id, and size the engine for it. Raises ModelLoadError for whatever is wrong.

    `device` is a torch device or "auto": CUDA if there is one, else the CPU.
    """
    target = _device(device)
    folder = _folder(model)
    model_config = _model_config(folder)
    max_model_len = _max_model_len(model_config, config.max_model_len, folder)
    tokenizer = FastTokenizer.from_folder(folder)
    if tokenizer.vocab_size > model_config.vocab_size:
        raise ModelLoadError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} ids, the model only {model_config.vocab_size}"
        )
    checkpoint = Checkpoint(folder)
    dtype = choose_compute_dtype(compute_dtype, checkpoint.dtype, target)
    num_threads = config.num_threads or _num_threads(checkpoint, target)
    with load_progress(model, checkpoint.num_bytes) as on_read:
        checkpoint.on_read = on_read
        backend = load_backend(model_config, checkpoint, dtype, target, max_model_len)
    num_blocks = config.num_blocks or _num_blocks(config, max_model_len, backend.bytes_per_slot, target, folder)
    resolved = replace(config, num_blocks=num_blocks, max_model_len=max_model_len, num_threads=num_threads)
    runner = ModelRunner(
        backend, num_blocks, config.block_size, target, watermark=config.watermark, num_threads=num_threads
    )
    eos_token_ids = _eos_token_ids(folder, model_config)
    return BuiltEngine(
        engine=Engine(runner, tokenizer, resolved, eos_token_ids=eos_token_ids, observer=observer),
        runner=runner,
        tokenizer=tokenizer,
        config=resolved,
        info=ModelInfo(
            architecture=(model_config.architectures or [model_config.model_type])[0],
            max_model_len=max_model_len,
            vocab_size=model_config.vocab_size,
            dtype=str(dtype).removeprefix("torch."),
            device=str(target),
            num_parameters=checkpoint.num_parameters,
            fingerprint=_fingerprint(checkpoint, folder, dtype),
        ),
        folder=folder,
        eos_token_ids=eos_token_ids,
    )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ModelLoadError(f"{name!r} is no device that torch knows") from error


def _num_threads(checkpoint: Checkpoint, device: torch.device) -> int:
    """One thread for a small model on the CPU, else as many as torch has.

    A small model's products take microseconds, and threads that wait for each other take longer than they save, the
    more so as the event loop and the other processes want the cores too.
    """
    is_small = checkpoint.num_parameters < _MIN_THREADED_PARAMETERS
    return 1 if is_small and device.type == "cpu" else torch.get_num_threads()


def _folder(model: str) -> Path:
    path = Path(model)
    if path.is_dir():
        return path
    if path.is_absolute() or model.startswith(".") or model.count("/") > 1:
        raise ModelLoadError(f"the model folder {model} does not exist")
    try:
        return Path(snapshot_download(model, allow_patterns=_HUB_FILES))
    except Exception as error:  # many kinds: not found, no network, no permission, a malformed id
        raise ModelLoadError(f"{model} is no folder and could not be had from the model hub: {error}") from error


def _model_config(folder: Path) -> Any:
    try:
        return AutoConfig.from_pretrained(folder)
    except Exception as error:  # many kinds, none of which a caller could act upon differently
        raise ModelLoadError(f"{folder / 'config.json'} can't be used: {error}") from error


def _max_model_len(model_config: Any, wanted: int | None, folder: Path) -> int:
    longest = getattr(model_config, "max_position_embeddings", None)
    if longest is None:
        raise ModelLoadError(f"{folder / 'config.json'} gives no max_position_embeddings")
    if wanted is not None and wanted > longest:
        raise ModelLoadError(f"max_model_len {wanted} exceeds the context length of {folder}, {longest}")
    return wanted or int(longest)


def _num_blocks(
    config: EngineConfig, max_model_len: int, bytes_per_slot: int, device: torch.device, folder: Path
) -> int:
    """As many as memory allows, and no more than all sequences of a full batch need at their longest."""
    useful = config.max_batch_sequences * -(-max_model_len // config.block_size)
    affordable = cache_bytes(device) // (bytes_per_slot * config.block_size)
    if affordable < 1:
        raise ModelLoadError(f"no memory is left for the cache of {folder}")
    return min(useful, affordable)


def _eos_token_ids(folder: Path, model_config: Any) -> frozenset[int]:
    """The ids that end a text: what generation_config.json says, else config.json."""
    ids = model_config.eos_token_id
    if (folder / "generation_config.json").is_file():
        try:
            generation: Any = GenerationConfig.from_pretrained(folder)
        except Exception as error:
            raise ModelLoadError(f"{folder / 'generation_config.json'} can't be used: {error}") from error
        ids = generation.eos_token_id if generation.eos_token_id is not None else ids
    return frozenset([ids] if isinstance(ids, int) else ids or ())


def _fingerprint(checkpoint: Checkpoint, folder: Path, dtype: torch.dtype) -> str:
    """Short and stable: the same files, compute type and torch give the same one on every machine."""
    described = (checkpoint.digest(), (folder / "config.json").read_text(), str(dtype), torch.__version__)
    return hashlib.sha256("\0".join(described).encode()).hexdigest()[:12]

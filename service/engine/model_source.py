"""From a model's name to its folder, and what the folder and the machine say before anything is loaded.

Everything that is wrong with a folder is a ModelLoadError that names it.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from service.engine.models.checkpoint import Checkpoint
from service.generation.errors import ModelLoadError

MIN_THREADED_PARAMETERS = 50_000_000


def choose_device(name: str) -> torch.device:
    """`name` is a torch device or "auto": CUDA if there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ModelLoadError(f"{name!r} is not a device that torch knows") from error


def choose_num_threads(checkpoint: Checkpoint, device: torch.device) -> int:
    """One thread for a small model on the CPU, else as many as torch has.

    A small model's products take microseconds, and threads that wait for each other take longer than they save, the
    more so as the event loop and the other processes want the cores too.
    """
    is_small = checkpoint.num_parameters < MIN_THREADED_PARAMETERS
    return 1 if is_small and device.type == "cpu" else torch.get_num_threads()


def read_model_config(folder: Path) -> Any:
    """The transformers configuration of `folder`/config.json."""
    try:
        return AutoConfig.from_pretrained(folder)
    except Exception as error:  # many kinds, none of which a caller could act upon differently
        raise ModelLoadError(f"{folder / 'config.json'} can't be used: {error}") from error


def choose_max_model_len(model_config: Any, wanted: int | None, folder: Path) -> int:
    """`wanted`, or as much as the model's positions allow."""
    longest = getattr(model_config, "max_position_embeddings", None)
    if longest is None:
        raise ModelLoadError(f"{folder / 'config.json'} gives no max_position_embeddings")
    if wanted is not None and wanted > longest:
        raise ModelLoadError(f"max_model_len {wanted} exceeds the context length of {folder}, {longest}")
    return wanted or int(longest)


def architecture_of(model_config: Any) -> str:
    """The class name that the configuration gives, or its model type."""
    return str((model_config.architectures or [model_config.model_type])[0])


def fingerprint(checkpoint: Checkpoint, weight_type: str, *files: Path, backend: str = "") -> str:
    """Short and stable: the same weights, `files`, type in memory, versions and backend give the same everywhere."""
    versions = (version("sluice"), torch.__version__)
    described = (checkpoint.digest(), *(file.read_text() for file in files), weight_type, *versions, backend)
    return hashlib.sha256("\0".join(described).encode()).hexdigest()[:12]

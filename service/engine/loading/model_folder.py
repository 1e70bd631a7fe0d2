"""Resolve a model's name to the folder of its files."""

from __future__ import annotations

from pathlib import Path

from service.engine.loading.hub import download
from service.generation.errors import ModelLoadError


def find_folder(model: str) -> Path:
    """Return the folder `model`, or the folder that the hub id `model` is downloaded to. Raise ModelLoadError."""
    path = Path(model)
    if path.is_dir():
        return path
    if path.is_file():
        hint = f"; sluice convert {model} FOLDER creates one" if path.suffix == ".gguf" else ""
        raise ModelLoadError(f"{model} is a file, but models are served from folders{hint}")
    if path.is_absolute() or model.startswith(".") or model.count("/") > 1:
        raise ModelLoadError(f"the model folder {model} does not exist")
    return download(model)

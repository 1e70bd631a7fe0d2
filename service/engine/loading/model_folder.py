"""Find the folder of a model's files by its name."""

from __future__ import annotations

from pathlib import Path

from service.engine.loading.hub import download
from service.generation.errors import ModelLoadError


def find_folder(model: str) -> Path:
    """The folder that `model` is, or that it is downloaded into if it is a hub id. Raises ModelLoadError."""
    path = Path(model)
    if path.is_dir():
        return path
    if path.is_file():
        hint = f"; sluice convert {model} FOLDER makes one" if path.suffix == ".gguf" else ""
        raise ModelLoadError(f"{model} is a file, and models are served from folders{hint}")
    if path.is_absolute() or model.startswith(".") or model.count("/") > 1:
        raise ModelLoadError(f"the model folder {model} does not exist")
    return download(model)

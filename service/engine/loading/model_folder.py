"""Resolve a model's name to the folder of its files."""

from __future__ import annotations

from pathlib import Path

from service.engine.loading.gguf.gguf_folder import gguf_folder
from service.engine.loading.hub import download
from service.generation.errors import ModelLoadError


def find_folder(model: str) -> Path:
    """Return the folder `model`, that of a GGUF file, or the one a hub id is downloaded to. Raise ModelLoadError."""
    path = Path(model)
    if path.is_dir():
        _reject_gguf_files(path)
        return path
    if path.is_file() and path.suffix == ".gguf":
        return gguf_folder(path)
    if path.is_file():
        raise ModelLoadError(f"{model} is a file, but models are served from folders and GGUF files")
    if path.is_absolute() or model.startswith(".") or model.count("/") > 1:
        raise ModelLoadError(f"the model folder {model} does not exist")
    return download(model)


def _reject_gguf_files(folder: Path) -> None:
    """Raise ModelLoadError for a folder that has only GGUF files."""
    if not (folder / "config.json").exists() and (file := min(folder.glob("*.gguf"), default=None)):
        raise ModelLoadError(f"{folder} has no config.json; its GGUF file is served by its own name: {file}")

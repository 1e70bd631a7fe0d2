"""Resolve a model's name to the folder of its files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from service.engine.loading.gguf.gguf_folder import gguf_folder
from service.engine.loading.hub import download
from service.generation.errors import ModelLoadError

_GGUF: Final = ".gguf"  # the end of a file's name, in any case
_SETTINGS: Final = ("config.json", "modules.json")  # a model's folder has one of them


def find_folder(model: str) -> Path:
    """Return the folder `model`, that of a GGUF file, or the one a hub id is downloaded to. Raise ModelLoadError."""
    path = Path(model)
    if path.is_dir():
        _reject_gguf_files(path)
        return path
    if path.suffix.lower() == _GGUF:
        if not path.is_file():
            raise ModelLoadError(f"the GGUF file {model} does not exist")
        return gguf_folder(path)
    if path.is_file():
        raise ModelLoadError(f"{model} is a file, but models are served from folders and GGUF files")
    if path.is_absolute() or model.startswith(".") or model.count("/") > 1:
        raise ModelLoadError(f"the model folder {model} does not exist")
    folder = download(model)
    _reject_other_formats(model, folder)
    return folder


def _reject_gguf_files(folder: Path) -> None:
    """Raise ModelLoadError for a folder that has only GGUF files."""
    if not (folder / "config.json").exists():
        files = [each for each in folder.iterdir() if each.suffix.lower() == _GGUF]
        if file := min(files, default=None):
            raise ModelLoadError(f"{folder} has no config.json; its GGUF file is served by its own name: {file}")


def _reject_other_formats(model: str, folder: Path) -> None:
    """Raise ModelLoadError for a model of the hub whose weights have a format that is not downloaded."""
    if not any((folder / name).exists() for name in _SETTINGS) or not any(folder.rglob("*.safetensors")):
        raise ModelLoadError(
            f"{model} has no config.json with weights in safetensors; if it has GGUF files, download one with "
            f"`hf download {model} FILE.gguf`, and serve the file that this prints"
        )

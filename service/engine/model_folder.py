"""From a model's name to the folder with its files."""

from __future__ import annotations

from pathlib import Path

from service.generation.errors import ModelLoadError

_HUB_FILES = ["*.json", "*.safetensors", "*.jinja"]


def find_folder(model: str) -> Path:
    """The folder that `model` is, or that it is downloaded into if it is a hub id. Raises ModelLoadError."""
    path = Path(model)
    if path.is_dir():
        return path
    if path.is_absolute() or model.startswith(".") or model.count("/") > 1:
        raise ModelLoadError(f"the model folder {model} does not exist")
    try:
        return download(model)
    except Exception as error:  # many kinds: not found, no network, no permission, a malformed id
        raise ModelLoadError(
            f"{model} is not a folder and could not be downloaded from the model hub: {error}"
        ) from error


def download(model: str) -> Path:
    """Fetch what is needed of a hub id's files, or what is missing of them. Raises whatever the library raises."""
    from huggingface_hub import snapshot_download  # noqa: PLC0415  it takes a tenth of a second, and most need none

    return Path(snapshot_download(model, allow_patterns=_HUB_FILES))

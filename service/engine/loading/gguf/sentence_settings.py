"""The files of sentence-transformers for a GGUF file that embeds texts: its pooling and its Dense modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import tokenizers
from safetensors.numpy import save_file
from tokenizers import processors

from service.engine.loading.gguf.metadata import GgufMetadata
from service.engine.models.checkpoint.gguf.names import DENSE
from service.generation.errors import ModelLoadError

_POOLINGS: Final = {1: "mean", 2: "cls", 3: "lasttoken"}
_MATRIX: Final = 2  # dimensions
_KEY: Final = "pooling_type"
_NO_POOLING: Final = 0  # the type of files that generate
_TYPE: Final = "sentence_transformers.models."
_IDENTITY: Final = "torch.nn.modules.linear.Identity"


def pooling_of(metadata: GgufMetadata, *, only_embeds: bool) -> str | None:
    """Return the pooling of a file that embeds, or None for one that generates. Raise ModelLoadError for others.

    `only_embeds` is true for architectures that don't generate.
    """
    value = metadata.own(_KEY, None)
    if value in {None, _NO_POOLING} and not only_embeds:
        return None
    if value not in _POOLINGS:
        allowed = ", ".join(f"{number} ({name})" for number, name in _POOLINGS.items())
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.{_KEY} must be one of {allowed}, not {value}")
    return _POOLINGS[value]


def write_sentence_files(metadata: GgufMetadata, pooling: str, folder: Path) -> None:
    """Write modules.json and the folders of its modules. Vectors are normalized, as llama.cpp's server does."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    _write(folder / "1_Pooling" / "config.json", {"pooling_mode": pooling})
    for name, path in DENSE.items():
        if (weight := metadata.numbers(name)) is None:
            continue
        if weight.ndim != _MATRIX:
            raise ModelLoadError(f"{metadata.file}: {name} must be a matrix")
        outputs, inputs = weight.shape
        values = {"in_features": inputs, "out_features": outputs, "bias": False, "activation_function": _IDENTITY}
        _write(folder / path / "config.json", values)
        save_file({"linear.weight": np.ascontiguousarray(weight)}, folder / path / "model.safetensors")
        kinds[path] = "Dense"
    kinds[f"{len(kinds)}_Normalize"] = "Normalize"
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"{_TYPE}{kind}"}
        for index, (path, kind) in enumerate(kinds.items())
    ]
    _write(folder / "modules.json", modules)


def set_marks(metadata: GgufMetadata, folder: Path) -> None:
    """Let texts of the tokenizer.json that transformers wrote begin and end with the tokens that the file states."""
    file = str(folder / "tokenizer.json")
    tokenizer: Any = tokenizers.Tokenizer.from_file(file)
    is_pieces = metadata.value("tokenizer.ggml.model", "") == "llama"
    before, after = (_mark(metadata, name, default) for name, default in (("bos", is_pieces), ("eos", False)))
    if not before and not after:
        return
    marks = [(text, metadata.tokens.index(text)) for text in {*before, *after}]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after], pair=[*before, "$A", *after, "$B:1", *after], special_tokens=marks
    )
    tokenizer.save(file)


def _mark(metadata: GgufMetadata, name: str, default: bool) -> list[str]:  # noqa: FBT001
    """Return the text of the token with which texts begin or end, if the file asks for it."""
    token_id = metadata.token_id(name)
    is_added = metadata.value(f"tokenizer.ggml.add_{name}_token", default) is True
    return [metadata.tokens[token_id]] if is_added and token_id is not None else []


def _write(file: Path, value: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(value), encoding="utf-8")

"""What a folder's own files say of how its vectors are made: sentence-transformers' modules.json and what it names.

Everything that can't be served is a ModelLoadError that names the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from service.generation.errors import ModelLoadError

Pooling = Literal["mean", "cls", "lasttoken"]

_MODULES = "modules.json"
_BODY_FILES = "sentence_*_config.json"  # sentence_bert_config.json, or named after another family
_POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_BODIES = ("Model", "ForMaskedLM")  # ends of architectures without a head, or with one that vectors don't need


@dataclass(frozen=True, slots=True)
class SentenceFiles:
    """How a text becomes a vector. The defaults are what sentence-transformers does with a bare model."""

    body: Path  # the folder of weights and tokenizer
    pooling: Pooling = "mean"
    normalises: bool = False
    max_seq_length: int | None = None  # tokens, those included that the tokenizer adds
    lowers_case: bool = False

    @classmethod
    def read(cls, folder: Path) -> SentenceFiles:
        """Raises ModelLoadError."""
        if not (folder / _MODULES).is_file():
            return cls(folder)
        kinds_and_folders = [
            (str(module.get("type", "")).rpartition(".")[2], folder / str(module.get("path", "")))
            for module in _read(folder / _MODULES, list)
        ]
        kinds = [kind for kind, _ in kinds_and_folders]
        if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
            raise ModelLoadError(
                f"{folder / _MODULES}: only the modules Transformer, Pooling and Normalize, in this order, can be "
                f"served, not {', '.join(kinds)}"
            )
        body = kinds_and_folders[0][1]
        files = sorted(body.glob(_BODY_FILES))
        settings = _read(files[0], dict) if files else {}
        max_seq_length = settings.get("max_seq_length")
        if max_seq_length is not None and (not isinstance(max_seq_length, int) or max_seq_length < 1):
            raise ModelLoadError(f"{files[0]}: max_seq_length must be a number of tokens, not {max_seq_length!r}")
        return cls(
            body,
            pooling=_pooling(kinds_and_folders[1][1] / "config.json"),
            normalises="Normalize" in kinds,
            max_seq_length=max_seq_length,
            lowers_case=bool(settings.get("do_lower_case")),
        )


def is_encoder(folder: Path) -> bool:
    """Whether a folder's model makes vectors: modules.json says so, or an architecture without a head for tokens."""
    if (folder / _MODULES).is_file():
        return True
    try:
        architectures = _read(folder / "config.json", dict).get("architectures") or [""]
    except ModelLoadError:
        return False  # whoever loads it as a decoder says what is wrong
    name = str(architectures[0])
    return name.endswith(_BODIES) and not name.endswith("LMHeadModel")


def _pooling(file: Path) -> Pooling:
    settings = _read(file, dict)
    if settings.get("include_prompt") is False:
        raise ModelLoadError(f"{file}: pooling that leaves out the instruction can't be served")
    modes = settings.get("pooling_mode") or [mode for flag, mode in _POOLING_FLAGS.items() if settings.get(flag)]
    names = modes if isinstance(modes, list) else [modes]
    for pooling in get_args(Pooling):
        if names == [pooling]:
            return pooling  # type: ignore[no-any-return]  # get_args gives the literal's own values
    wanted = ", ".join(map(str, names)) or "nothing"
    raise ModelLoadError(f"{file}: pooling is one of {', '.join(get_args(Pooling))} here, not {wanted}")


def _read(file: Path, kind: type[Any]) -> Any:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{file} can't be read: {error}") from error
    if not isinstance(value, kind):
        raise ModelLoadError(f"{file} is not a JSON {'object' if kind is dict else 'list'}")
    return value

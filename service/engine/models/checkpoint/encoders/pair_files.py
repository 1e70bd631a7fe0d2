"""Read how a cross-encoder scores a pair of texts, from its files in sentence-transformers' format.

Unsupported models raise a ModelLoadError that names the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from service.engine.models.checkpoint.encoders.sentence_files import architecture_name
from service.generation.errors import ModelLoadError
from service.generation.requests.ranking import Activation

_HEAD: Final = "ForSequenceClassification"
_UNSUPPORTED: Final = (
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "ForNextSentencePrediction",
)
_ACTIVATIONS: Final[dict[str, Activation]] = {"Sigmoid": "sigmoid", "Identity": "identity"}
_LONGEST: Final = 1 << 30  # tokens; a larger model_max_length means that there is no limit


@dataclass(frozen=True, slots=True)
class PairFiles:
    """The settings of a cross-encoder, which scores pairs of texts."""

    body: Path  # the folder with the model
    activation: Activation  # of the score
    max_length: int | None  # tokens of both texts and the special tokens; None if unlimited
    has_segments: bool  # the model takes token_type_ids: 0 for the first text, 1 for the second

    @classmethod
    def read(cls, folder: Path) -> PairFiles:
        """Read the files of a folder. Raise ModelLoadError if the model is not supported."""
        file = folder / "config.json"
        config = _read(file)
        labels = config.get("id2label")
        num_labels = len(labels) if isinstance(labels, dict) else config.get("num_labels", 2)
        if num_labels != 1:
            raise ModelLoadError(
                f"{file}: a classifier of {num_labels} labels can't be served; a cross-encoder has one"
            )
        tokenizer = _read(folder / "tokenizer_config.json")
        longest = tokenizer.get("model_max_length")
        names = tokenizer.get("model_input_names")
        if not isinstance(names, list) or not names:
            names = ["token_type_ids"]
        return cls(
            folder,
            _activation(folder, config),
            longest if isinstance(longest, int) and 0 < longest < _LONGEST else None,
            has_segments="token_type_ids" in names,
        )


def is_cross_encoder(folder: Path) -> bool:
    """Return True if a folder has a cross-encoder: a model with a classification head and no pooling module."""
    try:
        name = architecture_name(_read(folder / "config.json"))
        modules = (folder / "modules.json").read_text(encoding="utf-8") if (folder / "modules.json").is_file() else ""
    except (ModelLoadError, OSError, UnicodeDecodeError):
        return False  # loading it as another kind of model reports the error
    return name.endswith(_HEAD) and "Pooling" not in modules


def unsupported_head(folder: Path) -> str | None:
    """Return the architecture's name if its head is unsupported, otherwise None."""
    try:
        name = architecture_name(_read(folder / "config.json"))
    except ModelLoadError:
        return None  # loading the model reports the error
    return name if name.endswith(_UNSUPPORTED) and not (folder / "modules.json").is_file() else None


def _activation(folder: Path, config: dict[str, Any]) -> Activation:
    """Return the activation of the score, sigmoid by default. The newest versions write the third file."""
    nested = config.get("sentence_transformers")
    activation_name = (
        (nested if isinstance(nested, dict) else {}).get("activation_fn")
        or config.get("sbert_ce_default_activation_function")
        or _read(folder / "config_sentence_transformers.json").get("activation_fn")
        or "Sigmoid"
    )
    activation = _ACTIVATIONS.get(str(activation_name).rpartition(".")[2])
    if activation is None:
        known = " and ".join(_ACTIVATIONS)
        raise ModelLoadError(
            f"{folder / 'config.json'}: the activations that can be served are {known}, not {activation_name}"
        )
    return activation


def _read(file: Path) -> dict[str, Any]:
    """Read a JSON object; empty if the file does not exist."""
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelLoadError(f"{file} can't be read: {error}") from error
    if not isinstance(value, dict):
        raise ModelLoadError(f"{file} is not a JSON object")
    return value

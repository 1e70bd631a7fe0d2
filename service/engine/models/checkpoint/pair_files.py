"""Read a cross-encoder's files: how a pair of texts gets its score, by sentence-transformers' conventions.

Everything that can't be served is a ModelLoadError that names the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from service.generation.errors import ModelLoadError
from service.generation.ranking import Activation

_HEAD: Final = "ForSequenceClassification"
_UNSUPPORTED: Final = (
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "ForNextSentencePrediction",
)
_ACTIVATIONS: Final[dict[str, Activation]] = {"Sigmoid": "sigmoid", "Identity": "identity"}
_LONGEST: Final = 1 << 30  # tokens; a larger model_max_length says that none was given


@dataclass(frozen=True, slots=True)
class PairFiles:
    """How a pair becomes a score. `has_segments` tells whether the model is told which text a token belongs to."""

    body: Path
    activation: Activation
    max_length: int | None  # tokens of both texts and what stands around them
    has_segments: bool

    @classmethod
    def read(cls, folder: Path) -> PairFiles:
        """Raises ModelLoadError."""
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
        names = tokenizer.get("model_input_names") or ["token_type_ids"]
        return cls(
            folder,
            _activation(folder, config),
            longest if isinstance(longest, int) and 0 < longest < _LONGEST else None,
            has_segments="token_type_ids" in names,
        )


def is_cross_encoder(folder: Path) -> bool:
    """Whether a folder's model scores pairs: its architecture has a classifier on top, and nothing makes vectors."""
    try:
        architectures = _read(folder / "config.json").get("architectures") or [""]
        modules = (folder / "modules.json").read_text(encoding="utf-8") if (folder / "modules.json").is_file() else ""
    except (ModelLoadError, OSError, UnicodeDecodeError):
        return False  # whoever loads it otherwise says what is wrong
    return str(architectures[0]).endswith(_HEAD) and "Pooling" not in modules


def unsupported_head(folder: Path) -> str | None:
    """The architecture of a folder's model, if its head is for none of what is served."""
    try:
        name = str((_read(folder / "config.json").get("architectures") or [""])[0])
    except ModelLoadError:
        return None  # whoever loads it says what is wrong
    return name if name.endswith(_UNSUPPORTED) and not (folder / "modules.json").is_file() else None


def _activation(folder: Path, config: dict[str, Any]) -> Activation:
    """What is done to the model's number; sigmoid where nobody says. Newer files say it last in this list."""
    nested = config.get("sentence_transformers")
    said = (
        (nested if isinstance(nested, dict) else {}).get("activation_fn")
        or config.get("sbert_ce_default_activation_function")
        or _read(folder / "config_sentence_transformers.json").get("activation_fn")
        or "Sigmoid"
    )
    activation = _ACTIVATIONS.get(str(said).rpartition(".")[2])
    if activation is None:
        known = " and ".join(_ACTIVATIONS)
        raise ModelLoadError(f"{folder / 'config.json'}: the activations that can be served are {known}, not {said}")
    return activation


def _read(file: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is no file."""
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{file} can't be read: {error}") from error
    if not isinstance(value, dict):
        raise ModelLoadError(f"{file} is not a JSON object")
    return value

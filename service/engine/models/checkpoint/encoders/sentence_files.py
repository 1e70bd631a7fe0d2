"""Read an encoder's files: sentence-transformers' modules.json and the files that it names.

Unsupported models raise a ModelLoadError that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from service.generation.errors import ModelLoadError

Pooling = Literal["mean", "cls", "lasttoken"]

_MODULES = "modules.json"
_SENTENCES = "config_sentence_transformers.json"
_BODY_FILES = "sentence_*_config.json"  # sentence_bert_config.json, or named after another family
_POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_FIRST = ("Transformer", "Pooling")
_BODIES = ("Model", "ForMaskedLM")  # suffixes of architectures without a head, or with one that embeddings do not use


@dataclass(frozen=True, slots=True)
class DenseFiles:
    """A linear layer after the pooling: the folder of its weights, and the values of its config.json."""

    folder: Path
    num_inputs: int
    num_outputs: int
    has_bias: bool
    activation: str  # the name of torch's class

    @classmethod
    def read(cls, folder: Path) -> DenseFiles:
        """Read the layer's config.json. Raise ModelLoadError if the layer is not supported."""
        file = folder / "config.json"
        raw = _read(file, dict)
        sizes = [raw.get("in_features"), raw.get("out_features")]
        if not all(type(size) is int and size > 0 for size in sizes):
            raise ModelLoadError(f"{file}: in_features and out_features must be numbers of components, not {sizes}")
        for name in ("module_input_name", "module_output_name"):
            if raw.get(name, "sentence_embedding") not in (None, "sentence_embedding"):
                raise ModelLoadError(
                    f"{file}: a Dense module that isn't for the text's vector can't be served ({name})"
                )
        activation = str(raw.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
        return cls(folder, sizes[0], sizes[1], bool(raw.get("bias", True)), activation)


@dataclass(frozen=True, slots=True)
class SentenceFiles:
    """The computation of a text's vector. The defaults are those of sentence-transformers for a bare model.

    `prompts` are the prefixes of a text by purpose (`query`, `document`, …), and `default_prompt` is the prefix if
    none is requested. `dimensions` are the lengths to which the model's vectors can be truncated: None for any length,
    empty if the files do not have them.
    """

    body: Path  # the folder of weights and tokenizer
    pooling: Pooling = "mean"
    normalises: bool = False
    max_seq_length: int | None = None  # tokens, including special tokens
    lowers_case: bool = False
    dense: Sequence[DenseFiles] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str = ""
    dimensions: Sequence[int] | None = ()

    @classmethod
    def read(cls, folder: Path) -> SentenceFiles:
        """Read the files of a folder. Raise ModelLoadError if the model is not supported."""
        prompts, default_prompt = _prompts(folder / _SENTENCES)
        if not (folder / _MODULES).is_file():
            return cls(folder, prompts=prompts, default_prompt=default_prompt, dimensions=_dimensions(folder))
        kinds_and_folders = [
            (str(module.get("type", "")).rpartition(".")[2], folder / str(module.get("path", "")))
            for module in _read(folder / _MODULES, list)
            if isinstance(module, dict)
        ]
        kinds = [kind for kind, _ in kinds_and_folders]
        num_dense = kinds.count("Dense")
        if kinds not in ([*_FIRST, *["Dense"] * num_dense], [*_FIRST, *["Dense"] * num_dense, "Normalize"]):
            raise ModelLoadError(
                f"{folder / _MODULES}: only the modules Transformer, Pooling, Dense and Normalize, in this order, can "
                f"be served, not {', '.join(kinds)}"
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
            dense=tuple(DenseFiles.read(path) for kind, path in kinds_and_folders if kind == "Dense"),
            prompts=prompts,
            default_prompt=default_prompt,
            dimensions=_dimensions(body),
        )


def is_encoder(folder: Path) -> bool:
    """Return True if a folder's model is an encoder, by its modules.json or by an architecture without a token head.

    A modules.json with LogitScore belongs to a generating model that ranks by its logits.
    """
    try:
        if (folder / _MODULES).is_file():
            return "LogitScore" not in (folder / _MODULES).read_text(encoding="utf-8", errors="replace")
        name = architecture_name(_read(folder / "config.json", dict))
    except ModelLoadError:
        return False  # loading it as a decoder reports the error
    return name.endswith(_BODIES) and not name.endswith("LMHeadModel")


def architecture_name(config: Mapping[str, Any]) -> str:
    """Return the first of a configuration's architectures; "" if it has none or they are no list."""
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def _pooling(file: Path) -> Pooling:
    """Return the configured pooling. Raise ModelLoadError if it is not supported."""
    settings = _read(file, dict)
    if settings.get("include_prompt") is False:
        raise ModelLoadError(f"{file}: pooling that leaves out the instruction can't be served")
    modes = settings.get("pooling_mode") or [mode for flag, mode in _POOLING_FLAGS.items() if settings.get(flag)]
    names = modes if isinstance(modes, list) else [modes]
    for pooling in get_args(Pooling):
        if names == [pooling]:
            return pooling  # type: ignore[no-any-return]  # get_args returns the literal's values
    configured = ", ".join(map(str, names)) or "nothing"
    raise ModelLoadError(f"{file}: pooling is one of {', '.join(get_args(Pooling))} here, not {configured}")


def _prompts(file: Path) -> tuple[dict[str, str], str]:
    """Return the prompts by purpose, and the default prompt."""
    raw = _read(file, dict) if file.is_file() else {}
    prompts = raw.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(prompt, str) for prompt in prompts.values()):
        raise ModelLoadError(f"{file}: prompts must be an object of texts")
    name = raw.get("default_prompt_name")
    if name is not None and name not in prompts:
        raise ModelLoadError(f"{file}: default_prompt_name {name!r} is not one of the prompts")
    return prompts, prompts.get(name, "")


def _dimensions(body: Path) -> Sequence[int] | None:
    """Return the Matryoshka dimensions of config.json, by the fields that other inference servers use."""
    file = body / "config.json"
    raw = _read(file, dict) if file.is_file() else {}
    numbers = raw.get("matryoshka_dimensions")
    if numbers is None:
        return None if raw.get("is_matryoshka") is True else ()
    if not isinstance(numbers, list) or not all(type(number) is int and number > 0 for number in numbers):
        raise ModelLoadError(f"{file}: matryoshka_dimensions must be a list of numbers of components")
    return tuple(sorted(numbers))


def _read(file: Path, kind: type[Any]) -> Any:
    """Return a JSON file's value. Raise ModelLoadError if it can't be read or is not of `kind`."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelLoadError(f"{file} can't be read: {error}") from error
    if not isinstance(value, kind):
        raise ModelLoadError(f"{file} is not a JSON {'object' if kind is dict else 'list'}")
    return value

"""Read config.json.

Common decoders' files are read here: transformers takes seconds to import, with torch, and half of what it holds then
is never used. Whatever is unusual in a file is left to transformers, whose classes know every default.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from service.engine.models.checkpoint.packed_checkpoint import check_packing, quantization_in
from service.engine.models.checkpoint.text_part import text_part
from service.generation.errors import ModelLoadError

_TYPES = ("llama", "mistral", "qwen2", "qwen3")
_ROPES = {"default", "linear", "llama3", "yarn"}
_STATED = {  # what a file must state, since a default would depend on the type
    "vocab_size": int,
    "hidden_size": int,
    "intermediate_size": int,
    "num_hidden_layers": int,
    "num_attention_heads": int,
    "num_key_value_heads": int,
    "max_position_embeddings": int,
    "rms_norm_eps": float,
    "hidden_act": str,
    "tie_word_embeddings": bool,
}
_UNUSUAL = ("partial_rotary_factor", "use_sliding_window")  # unless false or null


_BERT_STATED = {
    "vocab_size": int,
    "hidden_size": int,
    "intermediate_size": int,
    "num_hidden_layers": int,
    "num_attention_heads": int,
    "max_position_embeddings": int,
    "type_vocab_size": int,
    "layer_norm_eps": float,
}
_BERT_UNUSUAL = ("is_decoder", "add_cross_attention", "is_encoder_decoder")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """A Llama-like decoder, by the names that transformers' configurations have. All layers are alike."""

    model_type: str
    architectures: list[str]
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    max_position_embeddings: int
    rms_norm_eps: float
    hidden_act: str
    tie_word_embeddings: bool
    eos_token_id: int | list[int] | None
    rope_parameters: dict[str, Any] = field(hash=False)
    head_dim: int
    sliding_window: int | None
    attention_bias: bool
    mlp_bias: bool
    is_part: bool = False  # of a model that reads images too, say: its tensors lie among others


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig:
    """A BERT whose activation is gelu and whose positions are absolute."""

    model_type: str
    architectures: list[str]
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float


def read_model_config(folder: Path) -> Any:
    """A `DecoderConfig`, a `BertConfig` or, of a model that isn't usual, transformers' own. Raises ModelLoadError.

    Of a model that reads images too it is what its text alone needs, where that is usual. How weights are quantised is
    the checkpoint's affair, and not told.
    """
    try:
        text = (folder / "config.json").read_text(encoding="utf-8")
        said = json.loads(text)
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{folder / 'config.json'} can't be used: {error}") from error
    if isinstance(said, dict) and (quantization := quantization_in(said)) is not None:
        check_packing(folder, quantization)
    usual = (_decoder_config(said) or _bert_config(said) or _text_part(said)) if isinstance(said, dict) else None
    if usual is not None:
        return usual
    config = read_transformers_config(folder)
    return _text_part({"eos_token_id": None, **config.to_dict()}) or config


def read_transformers_config(folder: Path) -> Any:
    """The transformers configuration of `folder`/config.json. Raises ModelLoadError."""
    from transformers import AutoConfig  # noqa: PLC0415  it takes seconds

    try:
        config = AutoConfig.from_pretrained(folder)
    except Exception as error:  # many kinds, none of which a caller could act upon differently
        raise ModelLoadError(f"{folder / 'config.json'} can't be used: {error}") from error
    for part in (config, config.get_text_config()):
        if hasattr(part, "quantization_config"):
            del part.quantization_config
    return config


def _decoder_config(said: dict[str, Any]) -> DecoderConfig | None:
    """None where something is missing, unusual or of a wrong type."""
    kind, rope = said.get("model_type"), _rope_parameters(said)
    if kind not in _TYPES or rope is None or any(said.get(name) for name in _UNUSUAL):
        return None
    if not _states(said, _STATED) or "eos_token_id" not in said:
        return None
    if said.get("layer_types") not in (None, ["full_attention"] * said["num_hidden_layers"]):
        return None
    head_dim: Any = said.get("head_dim") or (
        None if kind == "qwen3" else said["hidden_size"] // said["num_attention_heads"]
    )
    window = said.get("sliding_window", False) if kind == "mistral" else None
    biases = {name: said.get(name, False) for name in ("attention_bias", "mlp_bias")}
    is_usual = (
        type(head_dim) is int
        and (window is None or type(window) is int)
        and all(type(bias) is bool for bias in biases.values())
    )
    if not is_usual:
        return None
    return DecoderConfig(
        model_type=kind,
        architectures=said.get("architectures") or [kind],
        **{name: said[name] for name in _STATED},
        eos_token_id=said["eos_token_id"],
        rope_parameters=rope,
        head_dim=head_dim,
        sliding_window=window,
        **biases,
    )


def _text_part(said: dict[str, Any]) -> DecoderConfig | None:
    """The decoder of a model of several parts; None where it isn't usual."""
    text = text_part(said)
    usual = _decoder_config(text) if text is not None else None
    return replace(usual, is_part=True) if usual is not None else None


def _bert_config(said: dict[str, Any]) -> BertConfig | None:
    """None where something is missing, unusual or of a wrong type."""
    is_usual = (
        said.get("model_type") == "bert"
        and _states(said, _BERT_STATED)
        and said.get("hidden_act") == "gelu"
        and said.get("position_embedding_type", "absolute") == "absolute"
        and not any(said.get(name) for name in _BERT_UNUSUAL)
        and said["hidden_size"] % said["num_attention_heads"] == 0
    )
    if not is_usual:
        return None
    architectures = said.get("architectures") or ["bert"]
    return BertConfig(model_type="bert", architectures=architectures, **{name: said[name] for name in _BERT_STATED})


def _states(said: dict[str, Any], wanted: dict[str, type]) -> bool:
    """Whether all of these are told, in these types; numbers of things are above 0."""
    return all(type(said.get(name)) is kind and (kind is not int or said[name] > 0) for name, kind in wanted.items())


def _rope_parameters(said: dict[str, Any]) -> dict[str, Any] | None:
    """Type, theta and whatever belongs to the type, from either of the two forms that files have."""
    given = said.get("rope_parameters") or said.get("rope_scaling") or {}
    if not isinstance(given, dict):
        return None
    rope = {"rope_theta": said.get("rope_theta"), **given}
    rope.setdefault("rope_type", rope.get("type", "default"))
    if rope["rope_type"] in {"llama3", "yarn"}:
        rope.setdefault("original_max_position_embeddings", said.get("max_position_embeddings"))
    is_usual = (
        rope["rope_type"] in _ROPES
        and all(isinstance(value, int | float | str | None) for value in rope.values())
        and isinstance(rope["rope_theta"], int | float)
        and (rope["rope_type"] == "default" or isinstance(rope.get("factor"), int | float))
        and "partial_rotary_factor" not in rope
    )
    return rope if is_usual else None

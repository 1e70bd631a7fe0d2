"""Read config.json.

The files of common decoders are read by this module, because importing transformers takes seconds, and half of its
memory is never used. Uncommon files are read by transformers, whose classes have all defaults.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from service.engine.models.checkpoint.families.family_config import FamilyConfig, family_config
from service.engine.models.checkpoint.packed.packed_checkpoint import check_packing, quantization_in
from service.engine.models.checkpoint.text_part import takes_images, text_part, text_part_of
from service.generation.errors import ModelLoadError

_TYPES = ("llama", "mistral", "qwen2", "qwen3")
_ROPES = {"default", "linear", "llama3", "yarn"}
_STATED = {  # fields that a file must have, because their defaults depend on the type
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
_UNUSUAL = ("partial_rotary_factor", "use_sliding_window")  # fields that must be false or null


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
# The largest values of fields that lists are made of.
_MOST = {
    "num_hidden_layers": 1 << 12,
    "hidden_size": 1 << 20,
    "head_dim": 1 << 20,
    "global_head_dim": 1 << 20,
    "qk_rope_head_dim": 1 << 20,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """A Llama-like decoder whose layers are all equal. Fields have the names of transformers' configurations."""

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
    is_part: bool = False  # True for the decoder of a multimodal model


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig:
    """A BERT with gelu activation and absolute positions."""

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
    hidden_act: str = "gelu"


def read_model_config(folder: Path, *, keeps_images: bool = False) -> Any:
    """Return a `DecoderConfig`, a `FamilyConfig`, a `BertConfig` or, for other models, transformers' own.

    For a multimodal model with a common decoder, the result is the configuration of the decoder; with `keeps_images`,
    it is that of the whole model if a backend takes its images. It does not include the quantization of the weights,
    which the checkpoint handles. Raise ModelLoadError.
    """
    try:
        text = (folder / "config.json").read_text(encoding="utf-8")
        raw = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ModelLoadError(f"{folder / 'config.json'} can't be used: {error}") from error
    _check_sizes(folder, raw)
    if isinstance(raw, dict) and (quantization := quantization_in(raw)) is not None:
        check_packing(folder, quantization)
    is_whole = keeps_images and isinstance(raw, dict) and takes_images(raw, folder)
    if isinstance(raw, dict) and not is_whole:
        config = _decoder_config(raw) or family_config(raw) or _bert_config(raw) or _text_part(raw)
        if config is not None:
            return config
    config = read_transformers_config(folder)
    if is_whole:
        return config
    return _text_part({"eos_token_id": None, **config.to_dict()}) or text_part_of(config) or config


def _check_sizes(folder: Path, raw: Any) -> None:
    """Raise ModelLoadError for a size, of the model or of its decoder, that no model has."""
    parts: list[Any] = [raw, raw.get("text_config")] if isinstance(raw, dict) else []
    for part in parts:
        for name, most in _MOST.items() if isinstance(part, dict) else ():
            value = part.get(name)
            if isinstance(value, int | float) and value > most:
                raise ModelLoadError(f"{folder / 'config.json'}: {name} must be at most {most}, not {value}")


def read_transformers_config(folder: Path) -> Any:
    """Read `folder`/config.json with transformers. Raise ModelLoadError if that fails."""
    from transformers import CONFIG_MAPPING, AutoConfig  # noqa: PLC0415  it takes seconds

    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind = raw.get("model_type") if isinstance(raw, dict) else None
        if isinstance(kind, str) and kind not in CONFIG_MAPPING:
            raise ValueError(_unknown(kind, has_code="auto_map" in raw))  # noqa: TRY301  shorter than a function
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # any error means that the model cannot be loaded
        raise ModelLoadError(f"{folder / 'config.json'} can't be used: {error}") from error
    for part in (config, config.get_text_config()):
        if hasattr(part, "quantization_config"):
            del part.quantization_config
    return config


def _unknown(kind: str, *, has_code: bool) -> str:
    """Return why a model of an unknown type can't be served, and what to do."""
    if not has_code:
        return f"the model_type {kind!r} is not supported; docs/models.md lists the supported ones"
    return (
        f"the model_type {kind!r} needs Python code of the model's folder (auto_map), which is never run; serve a "
        "model of a supported type (docs/models.md), which many authors publish as well, often with the suffix -hf"
    )


def _decoder_config(raw: dict[str, Any]) -> DecoderConfig | None:
    """Return the configuration, or None if a field is missing, uncommon or of a wrong type."""
    kind, rope = raw.get("model_type"), _rope_parameters(raw)
    if kind not in _TYPES or rope is None or any(raw.get(name) for name in _UNUSUAL):
        return None
    if not _states(raw, _STATED) or "eos_token_id" not in raw:
        return None
    if raw.get("layer_types") not in (None, ["full_attention"] * raw["num_hidden_layers"]):
        return None
    head_dim: Any = raw.get("head_dim") or (
        None if kind == "qwen3" else raw["hidden_size"] // raw["num_attention_heads"]
    )
    window = raw.get("sliding_window", False) if kind == "mistral" else None
    biases = {name: raw.get(name, False) for name in ("attention_bias", "mlp_bias")}
    has_valid_types = (
        type(head_dim) is int
        and (window is None or type(window) is int)
        and all(type(bias) is bool for bias in biases.values())
    )
    if not has_valid_types:
        return None
    return DecoderConfig(
        model_type=kind,
        architectures=raw.get("architectures") or [kind],
        **{name: raw[name] for name in _STATED},
        eos_token_id=raw["eos_token_id"],
        rope_parameters=rope,
        head_dim=head_dim,
        sliding_window=window,
        **biases,
    )


def _text_part(raw: dict[str, Any]) -> DecoderConfig | FamilyConfig | None:
    """Return the decoder of a multimodal model, or None if it is uncommon."""
    text = text_part(raw)
    if text is None:
        return None
    if (config := _decoder_config(text)) is not None:
        return replace(config, is_part=True)
    if (family := family_config(text)) is not None:
        family.is_part = True
    return family


def _bert_config(raw: dict[str, Any]) -> BertConfig | None:
    """Return the configuration, or None if a field is missing, uncommon or of a wrong type."""
    has_valid_types = (
        raw.get("model_type") == "bert"
        and _states(raw, _BERT_STATED)
        and raw.get("hidden_act") == "gelu"
        and raw.get("position_embedding_type", "absolute") == "absolute"
        and not any(raw.get(name) for name in _BERT_UNUSUAL)
        and raw["hidden_size"] % raw["num_attention_heads"] == 0
    )
    if not has_valid_types:
        return None
    architectures = raw.get("architectures") or ["bert"]
    return BertConfig(model_type="bert", architectures=architectures, **{name: raw[name] for name in _BERT_STATED})


def _states(raw: dict[str, Any], expected: dict[str, type]) -> bool:
    """Return True if all wanted fields have the right types and all integers are above 0."""
    return all(type(raw.get(name)) is kind and (kind is not int or raw[name] > 0) for name, kind in expected.items())


def _rope_parameters(raw: dict[str, Any]) -> dict[str, Any] | None:
    """Return the rope type, theta and the type's parameters, from either of the two formats of config.json."""
    given = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    if not isinstance(given, dict):
        return None
    rope = {"rope_theta": raw.get("rope_theta"), **given}
    rope.setdefault("rope_type", rope.get("type", "default"))
    if rope["rope_type"] in {"llama3", "yarn"}:
        rope.setdefault("original_max_position_embeddings", raw.get("max_position_embeddings"))
    has_valid_types = (
        rope["rope_type"] in _ROPES
        and all(isinstance(value, int | float | str | None) for value in rope.values())
        and isinstance(rope["rope_theta"], int | float)
        and (rope["rope_type"] == "default" or isinstance(rope.get("factor"), int | float))
        and "partial_rotary_factor" not in rope
    )
    return rope if has_valid_types else None

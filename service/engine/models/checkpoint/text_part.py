"""The decoder of a multimodal model: its configuration and its tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.packed.packed_checkpoint import PackedCheckpoint, quantization_of

# Models whose text is computed exactly as by the decoder of the second type; None: the type in `text_config`. For pure
# text, rotary positions of several axes equal the usual ones.
_DECODERS: Final[dict[str, str | None]] = {
    "aya_vision": None,
    "got_ocr2": None,
    "idefics3": None,
    "internvl": None,
    "lighton_ocr": None,
    "llava": None,
    "llava_next": None,
    "llava_onevision": None,
    "mistral3": None,
    "qwen2_5_vl": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen3_vl": "qwen3",
    "smolvlm": None,
}
# Models whose text is computed as by the decoder of their `text_config`, which transformers reads.
_READ_BY_TRANSFORMERS: Final = ("qwen3_5", "qwen3_5_moe")
_AXES: Final = ("mrope_section", "mrope_interleaved")
_FROM_WHOLE: Final = ("architectures", "eos_token_id", "tie_word_embeddings")
# The prefixes of the decoder's tensors in current and earlier versions of transformers.
_DECODER_PREFIXES: Final = ("language_model.model.", "model.language_model.", "model.text_model.")
_HEADS: Final = ("language_model.lm_head.", "lm_head.")
_PLAIN_PREFIXES: Final = ("model.embed_tokens.", "model.layers.", "model.norm.")


def text_part(raw: dict[str, Any]) -> dict[str, Any] | None:
    """Return the decoder's configuration from a multimodal model's config.json, or None for other models."""
    kind = raw.get("model_type")
    if kind not in _DECODERS:
        return None
    nested = raw.get("text_config")
    text = dict(nested if isinstance(nested, dict) else raw)
    text.pop("tie_word_embeddings", None)  # the value of the whole model is used
    text |= {name: raw[name] for name in _FROM_WHOLE if raw.get(name) is not None}
    if "eos_token_id" in raw:
        text.setdefault("eos_token_id", None)
    text["model_type"] = _DECODERS[kind] or text.get("model_type")
    for name in ("rope_parameters", "rope_scaling"):
        if isinstance(text.get(name), dict):
            text[name] = _of_one_axis(text[name])
    return text


def text_part_of(config: Any) -> Any:
    """Return the decoder of a multimodal model that transformers has read, or None for other models."""
    if config.model_type not in _READ_BY_TRANSFORMERS:
        return None
    text = text_config(config)
    for name in _FROM_WHOLE:
        if getattr(config, name, None) is not None:
            setattr(text, name, getattr(config, name))
    text.is_part = True
    return text


def text_config(config: Any) -> Any:
    """Return the decoder's part of a transformers configuration; other configurations are returned unchanged."""
    find = getattr(config, "get_text_config", None)
    return config if find is None else find(decoder=True)


def text_tensor(name: str) -> str | None:
    """Map a multimodal model's tensor name to the decoder's name; None for a tensor of another part."""
    for prefix in _DECODER_PREFIXES:
        if name.startswith(prefix):
            return f"model.{name.removeprefix(prefix)}"
    for head in _HEADS:
        if name.startswith(head):
            return f"lm_head.{name.removeprefix(head)}"
    return name if name.startswith(_PLAIN_PREFIXES) else None


def open_checkpoint(folder: Path, model_config: Any) -> Checkpoint:
    """Return the tensors of `folder`, by the names of the decoder that `read_model_config` returned."""
    names = text_tensor if getattr(model_config, "is_part", False) else None
    quantization = quantization_of(folder)
    return Checkpoint(folder, names) if quantization is None else PackedCheckpoint(folder, names, quantization)


def _of_one_axis(rope: dict[str, Any]) -> dict[str, Any]:
    kind = rope.get("rope_type", rope.get("type", "default"))
    others = {name: value for name, value in rope.items() if name not in {*_AXES, "type"}}
    return others | {"rope_type": "default" if kind == "mrope" else kind}

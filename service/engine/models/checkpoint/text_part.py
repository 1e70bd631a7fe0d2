"""The decoder of a multimodal model: its configuration and its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.gguf.gguf_checkpoint import open_gguf
from service.engine.models.checkpoint.packed.packed_checkpoint import PackedCheckpoint, quantization_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decoder:
    """The decoder that computes the text of a type of multimodal models exactly as the whole model does."""

    kind: str | None = None  # its type; None: the type in `text_config`
    kinds: tuple[str, ...] = ()  # types in `text_config` that were tested, in addition to the common ones
    fields: Mapping[str, Any] = field(default_factory=dict)  # values that the whole model computes with
    is_tied: bool | None = None  # what the whole model is unless its file says so; None: only transformers knows


_COMMON: Final = ("llama", "mistral", "qwen2", "qwen3")
_UNSCALED: Final = _Decoder(
    kinds=("cohere2",), fields={"logit_scale": 1.0}, is_tied=True
)  # the whole models don't scale logits
# For pure text, rotary positions of several axes equal the usual ones.
_DECODERS: Final[dict[str, _Decoder]] = {
    "aya_vision": _UNSCALED,
    "cohere2_vision": _UNSCALED,
    "exaone4_5": _Decoder(kinds=("exaone4",), is_tied=False),
    "gemma3": _Decoder(kinds=("gemma3_text",), fields={"final_logit_softcapping": None}, is_tied=True),
    "gemma3n": _Decoder(kinds=("gemma3n_text",), is_tied=True),
    "gemma4": _Decoder(kinds=("gemma4_text",), is_tied=True),
    "got_ocr2": _Decoder(),
    "idefics2": _Decoder(),
    "idefics3": _Decoder(),
    "internvl": _Decoder(),
    "lfm2_vl": _Decoder(kinds=("lfm2",), is_tied=True),
    "lighton_ocr": _Decoder(),
    "llava": _Decoder(),
    "llava_next": _Decoder(),
    "llava_next_video": _Decoder(),
    "llava_onevision": _Decoder(),
    "mistral3": _Decoder(kinds=("ministral3",), is_tied=True),
    "ovis2": _Decoder(),
    "qwen2_5_vl": _Decoder(kind="qwen2"),
    "qwen2_vl": _Decoder(kind="qwen2"),
    "qwen3_5": _Decoder(kinds=("qwen3_5_text",), is_tied=False),
    "qwen3_5_moe": _Decoder(kinds=("qwen3_5_moe_text",), is_tied=False),
    "qwen3_vl": _Decoder(kind="qwen3"),
    "smolvlm": _Decoder(),
    "video_llava": _Decoder(),
    "vipllava": _Decoder(),
}
IMAGE_TYPES: Final = ("gemma3",)  # that the vision backend serves with images
_PROCESSORS: Final = ("preprocessor_config.json", "processor_config.json")
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
    decoder = _DECODERS.get(raw.get("model_type", ""))
    if decoder is None:
        return None
    nested = raw.get("text_config")
    text = dict(nested if isinstance(nested, dict) else raw)
    if decoder.kind is not None:
        text["model_type"] = decoder.kind
    elif text.get("model_type") not in (*_COMMON, *decoder.kinds):
        return None
    text.pop("tie_word_embeddings", None)  # the value of the whole model is used
    if decoder.is_tied is not None:
        text["tie_word_embeddings"] = decoder.is_tied
    text |= {name: raw[name] for name in _FROM_WHOLE if raw.get(name) is not None}
    if "eos_token_id" in raw:
        text.setdefault("eos_token_id", None)
    text |= decoder.fields
    for name in ("rope_parameters", "rope_scaling"):
        if isinstance(text.get(name), dict):
            text[name] = _of_one_axis(text[name])
    return text


def takes_images(raw: dict[str, Any], folder: Path) -> bool:
    """Return whether the vision backend serves a model with images."""
    return raw.get("model_type") in IMAGE_TYPES and has_image_processor(folder)


def has_image_processor(folder: Path) -> bool:
    """Return whether a folder describes how images are prepared for its model."""
    return any((folder / name).is_file() for name in _PROCESSORS)


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
    if (blocks := open_gguf(folder)) is not None:
        return blocks
    names = text_tensor if getattr(model_config, "is_part", False) else None
    quantization = quantization_of(folder)
    return Checkpoint(folder, names) if quantization is None else PackedCheckpoint(folder, names, quantization)


def _of_one_axis(rope: dict[str, Any]) -> dict[str, Any]:
    kind = rope.get("rope_type", rope.get("type", "default"))
    others = {name: value for name, value in rope.items() if name not in {*_AXES, "type"}}
    return others | {"rope_type": "default" if kind == "mrope" else kind}

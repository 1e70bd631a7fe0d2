"""The decoder inside a multimodal model: its configuration, and its tensors among the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.packed_checkpoint import PackedCheckpoint, quantization_of

# Models whose text alone is computed exactly as by the decoder of the second name; None: by the type that their
# `text_config` says. Rotary positions of several axes are the usual ones where all axes count alike, as in text.
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
_AXES: Final = ("mrope_section", "mrope_interleaved")
_FROM_WHOLE: Final = ("architectures", "eos_token_id", "tie_word_embeddings")
# Where transformers, of today and before, puts the decoder's tensors.
_PLACES: Final = ("language_model.model.", "model.language_model.", "model.text_model.")
_HEADS: Final = ("language_model.lm_head.", "lm_head.")
_BARE: Final = ("model.embed_tokens.", "model.layers.", "model.norm.")


def text_part(said: dict[str, Any]) -> dict[str, Any] | None:
    """What config.json says of the decoder of a model of several parts, as a decoder's own would; None for others."""
    kind = said.get("model_type")
    if kind not in _DECODERS:
        return None
    nested = said.get("text_config")
    text = dict(nested if isinstance(nested, dict) else said)
    text.pop("tie_word_embeddings", None)  # what the part says of it counts for nothing
    text |= {name: said[name] for name in _FROM_WHOLE if said.get(name) is not None}
    if "eos_token_id" in said:
        text.setdefault("eos_token_id", None)
    text["model_type"] = _DECODERS[kind] or text.get("model_type")
    for name in ("rope_parameters", "rope_scaling"):
        if isinstance(text.get(name), dict):
            text[name] = _of_one_axis(text[name])
    return text


def text_config(config: Any) -> Any:
    """The decoder's part of a configuration of transformers; any other configuration is its own."""
    find = getattr(config, "get_text_config", None)
    return config if find is None else find(decoder=True)


def text_tensor(name: str) -> str | None:
    """A decoder's own name for a tensor of a model of several parts; None for a tensor of another part."""
    for place in _PLACES:
        if name.startswith(place):
            return f"model.{name.removeprefix(place)}"
    for head in _HEADS:
        if name.startswith(head):
            return f"lm_head.{name.removeprefix(head)}"
    return name if name.startswith(_BARE) else None


def open_checkpoint(folder: Path, model_config: Any) -> Checkpoint:
    """The tensors of `folder`, by the names that the decoder of `read_model_config` has for them."""
    names = text_tensor if getattr(model_config, "is_part", False) else None
    said = quantization_of(folder)
    return Checkpoint(folder, names) if said is None else PackedCheckpoint(folder, names, said)


def _of_one_axis(rope: dict[str, Any]) -> dict[str, Any]:
    kind = rope.get("rope_type", rope.get("type", "default"))
    others = {name: value for name, value in rope.items() if name not in {*_AXES, "type"}}
    return others | {"rope_type": "default" if kind == "mrope" else kind}

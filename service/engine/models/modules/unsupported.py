"""Models with a causal head in transformers that are not supported, and the reason for each."""

from __future__ import annotations

from typing import Any, Final

# Encoders with a head for the next token, which goes by what stands before it only if the file says so.
_ENCODERS: Final = frozenset(
    {
        *("bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "megatron-bert"),
        *("reformer", "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "xlm-roberta"),
        *("xlm-roberta-xl", "xmod"),
    }
)
_OTHERS: Final = {
    "cpmant": "it must be given a whole text again for each of its tokens",
    "diffusion_gemma": "it writes a block of a text at once, in several passes over it, not token by token",
    "idefics": "it answers only to an image (pixel_values)",
    "kosmos-2": "it answers only to an image (pixel_values)",
    "kosmos-2.5": "it counts positions otherwise than a decoder of text",
    "moshi": "it computes a prompt in pieces otherwise than whole",
    "paligemma": "each token of its prompt sees the whole prompt",
    "shieldgemma2": "it judges an image (yes or no); it generates no text",
    "vision-encoder-decoder": "it answers only to an image (pixel_values)",
}


def unsupported_reason(config: Any, kind: str) -> str | None:
    """Why a model of the type `kind` is not served, of a model called it; None if nothing is known.

    `config` is what it says of its decoder.
    """
    if kind in _ENCODERS and not config.is_decoder:
        return "it is an encoder, which sees a whole text at once (is_decoder in config.json is not true)"
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder and a decoder"
    return _OTHERS.get(kind)

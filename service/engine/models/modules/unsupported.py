"""Models with a causal head in transformers that are not supported, and the reason for each."""

from __future__ import annotations

from typing import Any, Final

# Encoders with a causal head. They are causal only if their configuration says so.
_ENCODERS: Final = frozenset(
    {
        *("bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "megatron-bert"),
        *("reformer", "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "xlm-roberta"),
        *("xlm-roberta-xl", "xmod"),
    }
)
_OTHERS: Final = {
    "cpmant": "it needs the whole text again for each new token",
    "diffusion_gemma": "it generates a block of text in several passes, not token by token",
    "idefics": "it needs an image (pixel_values)",
    "kosmos-2": "it needs an image (pixel_values)",
    "kosmos-2.5": "it numbers positions differently from a text decoder",
    "moshi": "a prompt computed in chunks has other results than a whole one",
    "paligemma": "each token of its prompt sees the whole prompt",
    "shieldgemma2": "it classifies images and does not generate text",
    "vision-encoder-decoder": "it needs an image (pixel_values)",
}


def unsupported_reason(config: Any, kind: str) -> str | None:
    """Return why a model of the type `kind` is not supported, with "it" for the model, or None.

    `config` is the configuration of its decoder.
    """
    if kind in _ENCODERS and not config.is_decoder:
        return "it is an encoder, which sees a whole text at once (is_decoder in config.json is not true)"
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder and a decoder"
    return _OTHERS.get(kind)

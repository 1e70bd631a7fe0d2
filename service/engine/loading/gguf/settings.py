"""The configuration, end tokens and chat template in a GGUF file's metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from service.engine.loading.gguf.families import FAMILIES
from service.engine.loading.gguf.metadata import GgufMetadata, head_dim_of
from service.engine.loading.gguf.rotary import rope_scaling
from service.engine.loading.gguf.sentence_settings import pooling_of, set_marks, write_sentence_files
from service.engine.models.checkpoint.gguf.architectures import UNSTATED, architecture_of
from service.engine.models.checkpoint.gguf.header import GgufHeader
from service.generation.errors import ModelLoadError

_RMS_EPSILON: Final = "attention.layer_norm_rms_epsilon"
_EPSILONS: Final = frozenset({"layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"})  # of other norms
# Tokens at which llama.cpp ends a text as well, since many files state one end token of several.
_ENDS: Final = frozenset(
    {
        *("<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>"),
        *("<turn|>", "<|tool_response>"),
        *(
            "<|endoftext|>",
            "<|end_of_text|>",
            "<end_of_utterance>",
            "<EOT>",
            "_<EOT>",
            "<\uff5cend\u2581of\u2581sentence\uff5c>",
        ),
    }
)
# The names of sampling defaults in files and in generation_config.json.
_SAMPLING: Final = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repetition_penalty",
}
_HARMONY: Final = frozenset({"<|return|>", "<|call|>"})
_MESSAGE: Final = "<|end|>"  # ends a message, not a text, in a vocabulary that has both tokens of _HARMONY


class GgufSettings:
    """The settings of a model, from the metadata of its first file and the names of all tensors."""

    def __init__(self, header: GgufHeader) -> None:
        """Raise ModelLoadError for a model of an unsupported architecture."""
        self._metadata = GgufMetadata(header)
        name = architecture_of(header.metadata, header.tensors)
        if name not in FAMILIES:
            raise ModelLoadError(
                f"{header.file}: general.architecture is {name}; supported are "
                f"{', '.join(sorted(FAMILIES.keys() - UNSTATED))}"
            )
        self._family = FAMILIES[name]

    @property
    def word_splitter(self) -> tuple[str, str]:
        """The kind of the tokenizer and the name of its word splitter; empty if the file has none."""
        value = self._metadata.value
        return str(value("tokenizer.ggml.model", "")), str(value("tokenizer.ggml.pre", ""))

    @property
    def bos(self) -> tuple[str, int] | None:
        """The text and the id of the BOS token, or None if the file has none."""
        token_id = self._metadata.token_id("bos")
        return None if token_id is None else (self._metadata.tokens[token_id], token_id)

    @property
    def adds_bos(self) -> bool | None:
        """Whether texts begin with the BOS token, or None if the file doesn't say so."""
        stated = self._metadata.value("tokenizer.ggml.add_bos_token", None)
        return None if stated is None else bool(stated)

    @property
    def token_types(self) -> list[int]:
        """The types of the vocabulary's tokens by their numbers; empty if the file has none."""
        types = self._metadata.value("tokenizer.ggml.token_type", ())
        if not isinstance(types, np.ndarray | tuple) or not all(isinstance(each, np.integer) for each in types):
            raise ModelLoadError(f"{self._metadata.file}: tokenizer.ggml.token_type must be a list of integers")
        return [int(each) for each in types]

    @property
    def begins_with_space(self) -> bool:
        """Whether a SentencePiece tokenizer adds a space before texts; true for other tokenizers."""
        value = self._metadata.value
        is_pieces = value("tokenizer.ggml.model", "") == "llama"
        return not is_pieces or value("tokenizer.ggml.add_space_prefix", True) is not False

    def write_sentence_files(self, folder: Path) -> None:
        """Write the files of a model that embeds, and change the tokenizer of `folder`. Raise ModelLoadError."""
        pooling = pooling_of(self._metadata, only_embeds=self._family.only_embeds)
        if pooling is not None:
            write_sentence_files(self._metadata, pooling, folder)
            set_marks(self._metadata, folder)

    def config(self, dtype: str) -> dict[str, Any]:
        """Return the content of config.json. Raise ModelLoadError for an unsupported variant."""
        metadata = self._metadata
        config = {
            "model_type": self._family.model_type,
            "architectures": [self._family.model_class],
            "vocab_size": metadata.vocab_size,
            "hidden_size": metadata.size("embedding_length"),
            "num_hidden_layers": metadata.size("block_count"),
            "hidden_act": "silu",
            "tie_word_embeddings": metadata.is_tied,
            "eos_token_id": metadata.token_id("eos"),
            "bos_token_id": metadata.token_id("bos"),
            "pad_token_id": None,  # the default of some types exceeds other vocabularies
            "torch_dtype": dtype,
        }
        if not self._family.only_embeds and metadata.own("attention.causal", True) is False:
            raise ModelLoadError(f"{metadata.file}: {metadata.kind}.attention.causal must be true")
        own = self._family.fields(metadata)
        if not self._family.has_attention:
            return config | own
        if "num_key_value_heads" not in own:
            num_heads = metadata.size("attention.head_count")
            config["num_key_value_heads"] = metadata.size("attention.head_count_kv", num_heads)
        if "intermediate_size" not in own:
            config["intermediate_size"] = metadata.size("feed_forward_length")
        if not own.keys() & _EPSILONS:
            config["rms_norm_eps"] = metadata.number(_RMS_EPSILON)
        return config | self._positions() | own

    def _positions(self) -> dict[str, Any]:
        """Return the fields of heads and of positions."""
        metadata = self._metadata
        head_dim, base = head_dim_of(metadata), metadata.number("rope.freq_base", 10_000.0)
        if not self._family.rotates_parts and metadata.own("rope.dimension_count", head_dim) != head_dim:
            raise ModelLoadError(f"{metadata.file}: partial rotary positions are not supported")
        fields = {
            "num_attention_heads": metadata.size("attention.head_count"),
            "head_dim": head_dim,
            "max_position_embeddings": metadata.size("context_length"),
            "rope_theta": base,
        }
        if self._family.has_own_rotation:
            return fields
        scaling = rope_scaling(metadata, base, head_dim)
        return fields if scaling is None else fields | {"rope_scaling": scaling}

    def other_files(self) -> dict[str, str]:
        """The texts of further files by name: end tokens and sampling defaults, and the chat template."""
        metadata = self._metadata
        ends = {found for name in ("eos", "eot", "eom") if (found := metadata.token_id(name)) is not None}
        ends |= set(_known_ends(metadata.tokens).values())
        defaults: dict[str, Any] = {"eos_token_id": sorted(ends)} if ends else {}
        for own, name in _SAMPLING.items():
            if type(value := metadata.value(f"general.sampling.{own}", None)) in {int, float}:
                defaults[name] = round(value, 6)  # files have numbers of 32 bits
        files = {"generation_config.json": json.dumps(defaults)} if defaults else {}
        template = metadata.value("tokenizer.chat_template", "")
        if not isinstance(template, str):
            raise ModelLoadError(f"{metadata.file}: tokenizer.chat_template must be a text")
        return files | ({"chat_template.jinja": template} if template else {})


def _known_ends(tokens: Sequence[str]) -> dict[str, int]:
    """Return the ids of tokens that end a text by their own texts."""
    found = {text: token_id for token_id, text in enumerate(tokens) if text in _ENDS}
    if found.keys() >= _HARMONY:
        found.pop(_MESSAGE, None)
    return found

"""The configuration, end tokens and chat template in a GGUF file's metadata."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import numpy as np

from service.engine.models.checkpoint.gguf.gguf_checkpoint import read_numbers
from service.engine.models.checkpoint.gguf.header import GgufHeader
from service.engine.models.checkpoint.gguf.names import FACTORS
from service.generation.errors import ModelLoadError

ARCHITECTURES: Final = ("llama", "qwen2", "qwen3")
_LLAMA3: Final = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_LLAMA3_SCALES: Final = (8.0, 32.0)  # Llama 3.1 and 3.3; Llama 3.2
_MOST: Final = {"block_count": 1 << 12, "context_length": 1 << 31}
_MOST_SIZE: Final = 1 << 20
_REQUIRED: Final = object()


class GgufSettings:
    """The settings of a model, from the header of its first file."""

    def __init__(self, header: GgufHeader) -> None:
        """Raise ModelLoadError for a model of an unsupported architecture."""
        self._header, self._file = header, header.file
        self.kind = str(self._value("general.architecture"))
        if self.kind not in ARCHITECTURES:
            raise ModelLoadError(
                f"{self._file}: general.architecture is {self.kind}; supported are {', '.join(ARCHITECTURES)}"
            )

    @property
    def word_splitter(self) -> tuple[str, str]:
        """The kind of the tokenizer and the name of its word splitter; empty if the file has none."""
        return str(self._value("tokenizer.ggml.model", "")), str(self._value("tokenizer.ggml.pre", ""))

    def config(self, dtype: str) -> dict[str, Any]:
        """Return the content of config.json. Raise ModelLoadError for an unsupported variant."""
        num_heads, hidden = self._size("attention.head_count"), self._size("embedding_length")
        num_kv_heads = self._size("attention.head_count_kv", num_heads)
        scaling = self._of_kind("rope.scaling.type", "none")
        if scaling not in {"none", ""}:
            raise ModelLoadError(f"{self._file}: {self.kind}.rope.scaling.type {scaling} is not supported")
        base = self._number("rope.freq_base", 10_000.0)
        head_dim = self._size("attention.key_length", hidden // num_heads)
        if self._of_kind("rope.dimension_count", head_dim) != head_dim:
            raise ModelLoadError(f"{self._file}: partial rotary positions are not supported")
        embedding, tensors = "token_embd.weight", self._header.tensors
        vocabulary = self._value("tokenizer.ggml.tokens")
        if not isinstance(vocabulary, list):
            raise ModelLoadError(f"{self._file}: tokenizer.ggml.tokens must be a list of texts")
        vocab_size = tensors[embedding].shape[0] if embedding in tensors else len(vocabulary)
        config = {
            "model_type": self.kind,
            "architectures": [f"{self.kind.capitalize()}ForCausalLM"],
            "vocab_size": vocab_size,
            "hidden_size": hidden,
            "intermediate_size": self._size("feed_forward_length"),
            "num_hidden_layers": self._size("block_count"),
            "num_attention_heads": num_heads,
            "num_key_value_heads": num_kv_heads,
            "head_dim": head_dim,
            "max_position_embeddings": self._size("context_length"),
            "rms_norm_eps": self._number("attention.layer_norm_rms_epsilon"),
            "hidden_act": "silu",
            "rope_theta": base,
            "eos_token_id": self._token_id("eos"),
            "bos_token_id": self._token_id("bos"),
            "torch_dtype": dtype,
        }
        if FACTORS in tensors:
            config["rope_scaling"] = self._llama3(base, head_dim)
        return config

    def other_files(self) -> dict[str, str]:
        """The texts of further files by name: the end tokens, and the chat template."""
        ends = {found for name in ("eos", "eot", "eom") if (found := self._token_id(name)) is not None}
        files = {"generation_config.json": json.dumps({"eos_token_id": sorted(ends)})} if ends else {}
        template = self._value("tokenizer.chat_template", "")
        if not isinstance(template, str):
            raise ModelLoadError(f"{self._file}: tokenizer.chat_template must be a text")
        return files | ({"chat_template.jinja": template} if template else {})

    def _llama3(self, base: float, head_dim: int) -> dict[str, Any]:
        """Return the rotary scaling that has the file's factors."""
        factors = read_numbers(self._header.tensors[FACTORS]).astype(np.float64)
        wave_lengths = 2 * np.pi * base ** (np.arange(0, head_dim, 2) / head_dim)
        original, low, high = (
            _LLAMA3[name] for name in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
        )
        smooth_factor = np.clip((original / wave_lengths - low) / (high - low), 0, 1)
        for scale in _LLAMA3_SCALES:
            expected = 1 / ((1 - smooth_factor) / scale + smooth_factor)
            if factors.shape == expected.shape and np.allclose(expected, factors, rtol=1e-3):
                return {"rope_type": "llama3", "factor": scale, **_LLAMA3}
        raise ModelLoadError(f"{self._file}: {FACTORS} must be those of Llama 3.1, 3.2 or 3.3")

    def _size(self, name: str, *default: int) -> int:
        """Return a size of the architecture's own key. Raise ModelLoadError unless it is in its range."""
        value, most = self._of_kind(name, *default), _MOST.get(name, _MOST_SIZE)
        if type(value) is not int or not 1 <= value <= most:
            raise ModelLoadError(f"{self._file}: {self.kind}.{name} must be an integer from 1 to {most}")
        return value

    def _number(self, name: str, *default: float) -> float:
        """Return a number of the architecture's own key. Raise ModelLoadError unless it is finite and above 0."""
        value = self._of_kind(name, *default)
        if type(value) not in {int, float} or not 0 < value < math.inf:
            raise ModelLoadError(f"{self._file}: {self.kind}.{name} must be a number above 0")
        return float(value)

    def _token_id(self, name: str) -> int | None:
        """Return the id of a special token, or None if there is none. Raise ModelLoadError for another value."""
        key, num_tokens = f"tokenizer.ggml.{name}_token_id", len(self._value("tokenizer.ggml.tokens"))
        value = self._value(key, None)
        if value is not None and (type(value) is not int or not 0 <= value < num_tokens):
            raise ModelLoadError(f"{self._file}: {key} must be an integer below {num_tokens}")
        return value

    def _of_kind(self, name: str, *default: Any) -> Any:
        """Return the metadata value of the architecture's own key."""
        return self._value(f"{self.kind}.{name}", *default)

    def _value(self, key: str, *default: Any) -> Any:
        """Return a metadata value, or the default. Raise ModelLoadError if there is neither."""
        value = self._header.metadata.get(key, *(default or (_REQUIRED,)))
        if value is _REQUIRED:
            raise ModelLoadError(f"{self._file}: it has no {key}")
        return value

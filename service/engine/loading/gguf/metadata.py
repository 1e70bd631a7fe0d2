"""The values of a GGUF file's metadata, each checked for its type and range."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import numpy as np

from service.engine.models.checkpoint.gguf.gguf_checkpoint import read_numbers
from service.engine.models.checkpoint.gguf.header import GgufHeader
from service.engine.models.checkpoint.gguf.restored import ALL_HEADS
from service.generation.errors import ModelLoadError

_MOST: Final = {"block_count": 1 << 12, "context_length": 1 << 31, "rope.scaling.original_context_length": 1 << 31}
_MOST_SIZE: Final = 1 << 20
_REQUIRED: Final = object()


class GgufMetadata:
    """The metadata of a model, and the shapes of its tensors. Every error is a ModelLoadError with the key."""

    def __init__(self, header: GgufHeader) -> None:
        self._header, self.file = header, header.file
        self.kind = str(self.value("general.architecture"))

    def value(self, key: str, *default: Any) -> Any:
        """Return a value by its whole key, or the default."""
        value = self._header.metadata.get(key, *(default or (_REQUIRED,)))
        if value is _REQUIRED:
            raise ModelLoadError(f"{self.file}: it has no {key}")
        return value

    def own(self, name: str, *default: Any) -> Any:
        """Return the value of one of the architecture's own keys."""
        return self.value(f"{self.kind}.{name}", *default)

    def size(self, name: str, *default: int) -> int:
        """Return a size of the architecture's own key, an integer above 0."""
        value, most = self.own(name, *default), _MOST.get(name, _MOST_SIZE)
        if type(value) is not int or not 1 <= value <= most:
            raise ModelLoadError(f"{self.file}: {self.kind}.{name} must be an integer from 1 to {most}")
        return value

    def optional_size(self, name: str) -> int | None:
        """Return a size of the architecture's own key, or None if it is missing or 0."""
        return None if self.own(name, 0) == 0 else self.size(name)

    def count(self, name: str, *default: int) -> int:
        """Return a number of things by the architecture's own key, an integer from 0."""
        return 0 if self.own(name, *default) == 0 else self.size(name, *default)

    def number(self, name: str, *default: float) -> float:
        """Return a finite number above 0 of the architecture's own key."""
        value = self.own(name, *default)
        if type(value) not in {int, float} or not 0 < value < math.inf:
            raise ModelLoadError(f"{self.file}: {self.kind}.{name} must be a number above 0")
        return float(value)

    def layers(self, name: str) -> list[int] | None:
        """Return a value for each layer of the architecture's own key, or None if it isn't a list."""
        value = self.own(name, None)
        if not isinstance(value, np.ndarray):
            return None
        num_layers = self.size("block_count")
        if value.shape != (num_layers,) or value.dtype.kind not in "bui":
            raise ModelLoadError(f"{self.file}: {self.kind}.{name} must be a list of {num_layers} integers")
        return [int(each) for each in value]

    def each_layer(self, name: str) -> list[int]:
        """Return a count for each layer of the architecture's own key, which has a list, or one for all layers."""
        num_layers = self.size("block_count")
        counts = self.layers(name)
        if counts is None:
            return [self.count(name)] * num_layers
        if not all(0 <= each <= _MOST_SIZE for each in counts):
            raise ModelLoadError(f"{self.file}: {self.kind}.{name} must be a list of integers from 0 to {_MOST_SIZE}")
        return counts

    def layer_numbers(self, name: str, default: float) -> list[float]:
        """Return a number for each layer of the architecture's own key; -inf is allowed."""
        num_layers = self.size("block_count")
        value = np.asarray(self.own(name, np.full(num_layers, default)))
        if value.shape != (num_layers,) or value.dtype.kind not in "fiu" or np.isnan(value).any():
            raise ModelLoadError(f"{self.file}: {self.kind}.{name} must be a list of {num_layers} numbers")
        return [float(each) for each in value]

    @property
    def tokens(self) -> list[str]:
        """The texts of the vocabulary."""
        tokens = self.value("tokenizer.ggml.tokens")
        if not isinstance(tokens, list):
            raise ModelLoadError(f"{self.file}: tokenizer.ggml.tokens must be a list of texts")
        return tokens

    def token_id(self, name: str) -> int | None:
        """Return the id of a special token, or None if there is none."""
        key, num_tokens = f"tokenizer.ggml.{name}_token_id", len(self.tokens)
        value = self.value(key, None)
        if value is not None and (type(value) is not int or not 0 <= value < num_tokens):
            raise ModelLoadError(f"{self.file}: {key} must be an integer below {num_tokens}")
        return value

    def has(self, name: str) -> bool:
        """Return whether the model has a tensor; `*` stands for the number of any layer.

        A tensor that has the rows of queries, keys and values counts as that of each.
        """
        layers = range(self.size("block_count")) if "*" in name else [0]
        names = (name.replace("*", str(layer)) for layer in layers)
        return any(each in self._header.tensors or _fused(each) in self._header.tensors for each in names)

    def width(self, name: str) -> int:
        """Return the width of a tensor's rows; `*` stands for the number of the first layer that has it."""
        for layer in range(self.size("block_count")):
            if (tensor := self._header.tensors.get(name.replace("*", str(layer)))) is not None:
                return tensor.shape[-1]
        raise ModelLoadError(f"{self.file}: it has no {name}")

    def height(self, name: str) -> int:
        """Return the number of a tensor's rows."""
        if (tensor := self._header.tensors.get(name)) is None:
            raise ModelLoadError(f"{self.file}: it has no {name}")
        return tensor.shape[0]

    def numbers(self, name: str) -> np.ndarray[Any, np.dtype[np.float32]] | None:
        """Return the numbers of a tensor, or None if there is none."""
        tensor = self._header.tensors.get(name)
        return None if tensor is None else read_numbers(tensor)

    @property
    def vocab_size(self) -> int:
        """The rows of the embedding; without one, the tokens of the vocabulary."""
        tokens, embedding = self.tokens, self._header.tensors.get("token_embd.weight")
        return len(tokens) if embedding is None else embedding.shape[0]

    @property
    def is_tied(self) -> bool:
        """True if the head's weights are the embedding's."""
        return not self.has("output.weight")


def _fused(name: str) -> str:
    """Return the name of the tensor that may have the rows of queries, keys or values instead."""
    return re.sub(r"\.attn_[qkv]\.", ALL_HEADS, name)


def head_dim_of(metadata: GgufMetadata) -> int:
    """Return the width of a head."""
    return metadata.size(
        "attention.key_length", metadata.size("embedding_length") // metadata.size("attention.head_count")
    )

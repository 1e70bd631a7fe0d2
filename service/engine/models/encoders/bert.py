"""BERT in numpy, for small encoders on the CPU, where torch and transformers would take most of memory and start time.

Texts are concatenated without padding; only attention is computed per text.
"""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.encoders.sentence_files import Pooling, SentenceFiles
from service.engine.models.checkpoint.model_config import BertConfig
from service.generation.requests.embedding import TokenIds, Vector

Floats = npt.NDArray[np.float32]

_PREFIXES = ("", "bert.")  # the second if the checkpoint has a head
_GELU_ROWS = 32  # rows at a time, so that they stay in a core's cache
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


@dataclass(frozen=True, slots=True)
class _Linear:
    weight: Floats  # [outputs, inputs]
    bias: Floats

    def __call__(self, rows: Floats) -> Floats:
        product: Floats = rows @ self.weight.T
        product += self.bias
        return product


@dataclass(frozen=True, slots=True)
class _Norm:
    weight: Floats
    bias: Floats
    epsilon: float

    def __call__(self, rows: Floats) -> Floats:
        """Normalize the rows in place."""
        rows -= rows.mean(1, keepdims=True)
        variances = np.einsum("ij,ij->i", rows, rows)[:, None] / np.float32(rows.shape[1])
        rows /= np.sqrt(variances + np.float32(self.epsilon))
        rows *= self.weight
        rows += self.bias
        return rows


@dataclass(frozen=True, slots=True)
class _Layer:
    query_key_value: _Linear
    output: _Linear
    output_norm: _Norm
    up: _Linear
    down: _Linear
    down_norm: _Norm


class BertEncoder:
    """An EncoderRunner for BERT. After the load only the engine's thread calls it."""

    def __init__(self, config: BertConfig, checkpoint: Checkpoint, prefix: str, files: SentenceFiles) -> None:
        """Read the weights. Raise ModelLoadError for a missing or wrongly shaped tensor."""
        self._config = config
        self._files = files
        self.num_dimensions, self.max_positions = config.hidden_size, config.max_position_embeddings
        read = _Reader(checkpoint, prefix, config)
        self._token_embeddings = read.tensor("embeddings.word_embeddings.weight", config.vocab_size, config.hidden_size)
        types = read.tensor("embeddings.token_type_embeddings.weight", config.type_vocab_size, config.hidden_size)
        self._positions = read.tensor("embeddings.position_embeddings.weight", self.max_positions, config.hidden_size)
        self._positions += types[0]
        self._norm = read.norm("embeddings.LayerNorm")
        self._layers = [read.layer(f"encoder.layer.{index}") for index in range(config.num_hidden_layers)]

    def run(self, inputs: abc.Sequence[TokenIds], second_starts: abc.Sequence[int] = ()) -> abc.Sequence[Vector]:  # noqa: ARG002  it scores no pairs
        """Return the vectors, float32 [dimensions] each, in the order of the inputs."""
        ends = [0, *np.cumsum([len(each) for each in inputs]).tolist()]
        texts = [slice(start, end) for start, end in pairwise(ends)]
        rows = self._token_embeddings[np.concatenate(inputs)]
        for text in texts:
            rows[text] += self._positions[: text.stop - text.start]
        self._norm(rows)
        for layer in self._layers:
            rows = self._compute(layer, rows, texts)
        vectors = np.stack([_pool(rows[text], self._files.pooling) for text in texts])
        if self._files.normalises:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return list(vectors)

    def _compute(self, layer: _Layer, rows: Floats, texts: abc.Sequence[slice]) -> Floats:
        """Compute one layer over the rows of all texts. Attention is computed for each text alone."""
        shape = (3, self._config.num_attention_heads, -1)
        queries_keys_values = layer.query_key_value(rows).reshape(len(rows), *shape)
        attended = np.empty_like(rows)
        for text in texts:
            attended[text] = _attend(queries_keys_values[text]).reshape(-1, rows.shape[1])
        rows = layer.output_norm(rows + layer.output(attended))
        return layer.down_norm(rows + layer.down(_gelu(layer.up(rows))))


def load_bert(config: Any, checkpoint: Checkpoint, files: SentenceFiles) -> BertEncoder | None:
    """Load a checkpoint, or return None if it is not a plain BERT. Raise ModelLoadError for a wrongly shaped tensor."""
    if not isinstance(config, BertConfig):
        return None
    prefix = next((each for each in _PREFIXES if f"{each}embeddings.LayerNorm.weight" in checkpoint), None)
    return None if prefix is None else BertEncoder(config, checkpoint, prefix, files)


class _Reader:
    def __init__(self, checkpoint: Checkpoint, prefix: str, config: BertConfig) -> None:
        self._checkpoint = checkpoint
        self._prefix = prefix
        self._config = config

    def tensor(self, name: str, *shape: int) -> Floats:
        stored = self._checkpoint.take(self._prefix + name, shape)
        if stored.dtype == np.uint16:  # the bits of bfloat16
            return (stored.astype(np.uint32) << 16).view(np.float32)
        return stored.astype(np.float32, copy=False)

    def norm(self, name: str) -> _Norm:
        weight, bias = (self.tensor(f"{name}.{part}", self._config.hidden_size) for part in ("weight", "bias"))
        return _Norm(weight, bias, self._config.layer_norm_eps)

    def linear(self, names: abc.Sequence[str], inputs: int, outputs: int) -> _Linear:
        """Return one fused layer of several that share their input."""
        weights = [self.tensor(f"{name}.weight", outputs, inputs) for name in names]
        biases = [self.tensor(f"{name}.bias", outputs) for name in names]
        return _Linear(np.concatenate(weights), np.concatenate(biases))

    def layer(self, name: str) -> _Layer:
        hidden, inner = self._config.hidden_size, self._config.intermediate_size
        attention = f"{name}.attention"
        return _Layer(
            self.linear([f"{attention}.self.{part}" for part in ("query", "key", "value")], hidden, hidden),
            self.linear([f"{attention}.output.dense"], hidden, hidden),
            self.norm(f"{attention}.output.LayerNorm"),
            self.linear([f"{name}.intermediate.dense"], hidden, inner),
            self.linear([f"{name}.output.dense"], inner, hidden),
            self.norm(f"{name}.output.LayerNorm"),
        )


def _attend(queries_keys_values: Floats) -> Floats:
    """Return the attention [tokens, heads, head size] of one text [tokens, 3, heads, head size]."""
    queries, keys, values = queries_keys_values.transpose(1, 2, 0, 3)
    scores: Floats = queries @ keys.transpose(0, 2, 1)
    scores *= np.float32(queries.shape[-1] ** -0.5)
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    sums: Floats = scores @ values
    return sums.transpose(1, 0, 2)


def _gelu(rows: Floats) -> Floats:
    """Compute GELU, x times the normal distribution function of x, in place, within 2e-7.

    Abramowitz and Stegun, 7.1.26: 1 - erf(z) is a polynomial in 1 / (1 + 0.3275911 z), times e to the -z².
    """
    for start in range(0, len(rows), _GELU_ROWS):
        x = rows[start : start + _GELU_ROWS]
        z = np.abs(x)
        z *= np.float32(0.5**0.5)
        t = z * np.float32(0.3275911)
        t += 1
        np.reciprocal(t, out=t)
        share = t * np.float32(_ERF[0])
        for factor in _ERF[1:]:
            share += np.float32(factor)
            share *= t
        np.multiply(z, z, out=t)
        np.negative(t, out=t)
        np.exp(t, out=t)
        share *= t
        share *= z
        share *= np.float32(0.5**0.5)  # |x| / 2 times 1 - erf(|x| / sqrt 2)
        np.maximum(x, 0, out=x)
        x -= share
    return rows


def _pool(states: Floats, pooling: Pooling) -> Floats:
    """Return the vector of one text from its states [tokens, hidden size]."""
    if pooling == "mean":
        mean: Floats = states.mean(0)
        return mean
    state: Floats = states[0 if pooling == "cls" else -1]
    return state

"""The layers after the pooling: sentence-transformers' Dense modules, and heads of cross-encoders, in float32.

Each vector is computed alone, so its bits don't depend on the others of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.encoders.sentence_files import DenseFiles
from service.engine.models.plans.encoder_family import HeadLayer

Vector: TypeAlias = NDArray[np.float32]


def _gelu(vector: Vector) -> Vector:
    distribution = [0.5 * (1 + math.erf(x / math.sqrt(2))) for x in vector.tolist()]
    result: Vector = vector * np.array(distribution, np.float32)
    return result


def _sigmoid(vector: Vector) -> Vector:
    result: Vector = np.float32(1) / (np.float32(1) + np.exp(-vector))
    return result


def _relu(vector: Vector) -> Vector:
    result: Vector = np.maximum(vector, np.float32(0))
    return result


def _tanh(vector: Vector) -> Vector:
    result: Vector = np.tanh(vector)
    return result


ACTIVATIONS: Final[Mapping[str, Callable[[Vector], Vector]]] = {
    "Identity": lambda vector: vector,
    "Tanh": _tanh,
    "ReLU": _relu,
    "GELU": _gelu,
    "SiLU": lambda vector: vector * _sigmoid(vector),
    "Sigmoid": _sigmoid,
}


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """A layer norm of a vector."""

    weight: Vector
    bias: Vector | None
    epsilon: float

    def __call__(self, vector: Vector) -> Vector:
        """Return the normalized vector."""
        centered = vector - vector.mean()
        normalized: Vector = centered / np.sqrt((centered * centered).mean() + np.float32(self.epsilon)) * self.weight
        return normalized if self.bias is None else normalized + self.bias


@dataclass(frozen=True, slots=True)
class VectorLayer:
    """A linear layer with an activation, and a norm if there is one."""

    weight: NDArray[np.float32]  # [outputs, inputs]
    bias: Vector | None
    activate: Callable[[Vector], Vector]
    norm: LayerNorm | None = None

    def __call__(self, vector: Vector) -> Vector:
        """Return the layer's outputs for one vector of inputs."""
        product: Vector = self.weight @ vector
        activated = self.activate(product if self.bias is None else product + self.bias)
        return activated if self.norm is None else self.norm(activated)


def load_dense_layer(files: DenseFiles) -> VectorLayer:
    """Load a Dense module. Raise ModelLoadError for a missing or wrongly shaped tensor."""
    checkpoint = Checkpoint(files.folder)
    weight = checkpoint.take_floats("linear.weight", (files.num_outputs, files.num_inputs))
    bias = checkpoint.take_floats("linear.bias", (files.num_outputs,)) if files.has_bias else None
    return VectorLayer(weight, bias, ACTIVATIONS[files.activation])


def load_head_layer(
    layer: HeadLayer, take: Callable[[str, tuple[int, ...]], Vector], num_inputs: int, num_outputs: int
) -> VectorLayer:
    """Load a layer of a head; `take` returns a tensor as float32. Raise ModelLoadError as `take` does."""
    weight = take(f"{layer.module}.weight", (num_outputs, num_inputs))
    bias = take(f"{layer.module}.bias", (num_outputs,)) if layer.has_bias else None
    norm = None
    if layer.norm is not None:
        norm_weight = take(f"{layer.norm.module}.weight", (num_outputs,))
        norm_bias = take(f"{layer.norm.module}.bias", (num_outputs,)) if layer.norm.has_bias else None
        norm = LayerNorm(norm_weight, norm_bias, layer.norm.epsilon)
    return VectorLayer(weight, bias, ACTIVATIONS[layer.activation], norm)

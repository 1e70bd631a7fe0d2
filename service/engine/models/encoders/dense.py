"""The Dense module of sentence-transformers: a linear layer after the pooling."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.encoders.sentence_files import DenseFiles
from service.generation.errors import ModelLoadError

_ACTIVATIONS: dict[str, abc.Callable[[Tensor], Tensor]] = {
    "Identity": lambda rows: rows,
    "Tanh": torch.tanh,
    "ReLU": functional.relu,
    "GELU": functional.gelu,
    "SiLU": functional.silu,
    "Sigmoid": torch.sigmoid,
}


@dataclass(frozen=True, slots=True)
class Dense:
    """A linear layer in float32 with an activation."""

    weight: Tensor  # [outputs, inputs]
    bias: Tensor | None
    activate: abc.Callable[[Tensor], Tensor]

    def __call__(self, rows: Tensor) -> Tensor:
        """Return [texts, outputs] for [texts, inputs]."""
        return self.activate(functional.linear(rows, self.weight, self.bias))


def load_dense(files: DenseFiles, device: torch.device) -> Dense:
    """Load a layer. Raise ModelLoadError if it is not supported, or its weights are missing or wrongly shaped."""
    if files.activation not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise ModelLoadError(f"{files.folder}: activation_function must be one of {known}, not {files.activation}")
    checkpoint = Checkpoint(files.folder)
    weight = _tensor(checkpoint, "linear.weight", files.num_outputs, files.num_inputs)
    bias = _tensor(checkpoint, "linear.bias", files.num_outputs) if files.has_bias else None
    return Dense(weight.to(device), None if bias is None else bias.to(device), _ACTIVATIONS[files.activation])


def _tensor(checkpoint: Checkpoint, name: str, *shape: int) -> Tensor:
    return torch.from_numpy(checkpoint.take_floats(name, shape))

"""Read a LoRA adapter's folder in PEFT's format: adapter_config.json and adapter_model.safetensors.

The tensors determine the adapted modules. Every error is an AdapterRejected that names the file and the field.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.module_pattern import MAX_NAME, ModulePattern
from service.generation.adapter import AdapterLoaded
from service.generation.errors import AdapterRejected, ModelLoadError

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"

_PREFIX = "base_model.model."
_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"
_UNSUPPORTED_MODULES = ("lm_head", "embed_tokens")
# Fields that change the arithmetic, or parts of the model other than linear layers. They must have their defaults.
_UNSUPPORTED_FIELDS: Mapping[str, str] = {
    "use_dora": "DoRA is not served: false",
    "use_qalora": "QALoRA is not served: false",
    "lora_bias": "biases are not served: false",
    "modules_to_save": "whole modules are not served, only low-rank changes: null",
    "layer_replication": "repeated layers are not served: null",
    "target_parameters": "only modules are served, not single parameters: null",
    "trainable_token_indices": "changed embeddings are not served: null",
    "alora_invocation_tokens": "activated LoRA is not served: null",
    "use_bdlora": "block-diagonal LoRA is not served: false",
    "kasa_config": "KaSA is not served: null",
    "monteclora_config": "MonteCLoRA is not served: null",
    "arrow_config": "routed adapters are not served: null",
}
_LARGEST = float(np.finfo(np.float32).max)
_CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LowRank:
    """The term added to a linear layer y = x · weightᵀ: x · downᵀ · upᵀ, with the scale included in `up`."""

    down: npt.NDArray[np.float32]  # [rank, inputs]
    up: npt.NDArray[np.float32]  # [outputs, rank]

    @property
    def rank(self) -> int:
        """The inner dimension of the two matrices."""
        return int(self.down.shape[0])


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter read from a folder."""

    folder: Path
    modules: Mapping[str, LowRank]  # by the modules' names, such as model.layers.0.self_attn.q_proj
    digest: str  # a hash of all that affects tokens

    @property
    def rank(self) -> int:
        """The largest rank of its modules."""
        return max(each.rank for each in self.modules.values())

    @property
    def num_parameters(self) -> int:
        """The number of elements of all its tensors."""
        return sum(each.down.size + each.up.size for each in self.modules.values())

    @property
    def description(self) -> AdapterLoaded:
        """Its description for clients."""
        return AdapterLoaded(self.rank, self.num_parameters, self.digest)

    def rejection(self, module: str, reason: str) -> AdapterRejected:
        """Return the error for a module that the model cannot adapt."""
        return AdapterRejected(f"{self.folder / TENSORS}: {module}: {reason}")


def read_adapter(folder: Path, max_rank: int) -> Adapter:
    """Read an adapter. Raise AdapterRejected if it is invalid, unsupported or above `max_rank`."""
    try:
        return _read(folder, max_rank)
    except AdapterRejected:
        raise
    except Exception as error:  # files of adapters come from anywhere
        _log.exception("%s can't be read", folder)
        raise AdapterRejected(f"{folder} can't be read: {type(error).__name__}: {error}") from error


def _read(folder: Path, max_rank: int) -> Adapter:
    file = folder / CONFIG
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise AdapterRejected(f"{file} can't be read: {error}") from error
    if not isinstance(config, dict):
        raise AdapterRejected(f"{file} must hold a JSON object")
    _check_config(file, config)
    if not (folder / TENSORS).is_file():
        raise AdapterRejected(f"{folder / TENSORS} is missing; adapters are read as safetensors only")
    try:
        checkpoint = Checkpoint(folder, files=[folder / TENSORS])
        modules = dict(_modules(file, config, checkpoint, max_rank))
        # The configuration is hashed because it has the scale.
        digest = hashlib.sha256(
            f"{checkpoint.content_digest()} {json.dumps(config, sort_keys=True)}".encode()
        ).hexdigest()
    except ModelLoadError as error:
        raise AdapterRejected(str(error)) from error
    if not modules:
        raise AdapterRejected(f"{folder / TENSORS} has no tensor that ends with {_DOWN}")
    return Adapter(folder, modules, digest)


def _check_config(file: Path, config: dict[str, Any]) -> None:
    """Raise AdapterRejected for a kind of adapter or an option that is not supported."""
    if (kind := config.get("peft_type")) != "LORA":
        raise AdapterRejected(f"{file}: peft_type: {kind!r} is not served; LORA is")
    if (task := config.get("task_type")) not in (None, "CAUSAL_LM"):
        raise AdapterRejected(f"{file}: task_type: {task!r} is not served; CAUSAL_LM is")
    if (bias := config.get("bias", "none")) != "none":
        raise AdapterRejected(f"{file}: bias: {bias!r} is not served; none is")
    for field, allowed in _UNSUPPORTED_FIELDS.items():
        if config.get(field):
            raise AdapterRejected(f"{file}: {field}: {allowed} is allowed")
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGES_BASE):
        raise AdapterRejected(
            f"{file}: init_lora_weights: {start!r} changes the model's own weights; save the adapter as plain LoRA "
            "(path_initial_model_for_weight_conversion)"
        )


def _modules(
    file: Path, config: dict[str, Any], checkpoint: Checkpoint, max_rank: int
) -> Iterator[tuple[str, LowRank]]:
    tensors = file.parent / TENSORS
    shapes = {name: shape for name, shape, _ in checkpoint.describe()}
    _check_names(tensors, shapes)
    ranks = _ModuleValues.read(file, config, "r", "rank_pattern")
    alphas = _ModuleValues.read(file, config, "lora_alpha", "alpha_pattern")
    for tensor, down_shape in shapes.items():
        if not tensor.endswith(_DOWN):
            continue
        stem = tensor.removesuffix(_DOWN)
        name = stem.removeprefix(_PREFIX)
        rank = _rank(file, ranks, name, max_rank)
        up_shape = shapes[stem + _UP]
        if down_shape[0] != rank or up_shape[1] != rank:
            raise AdapterRejected(
                f"{tensors}: {name} has the shapes {[*down_shape]} and {[*up_shape]}, {CONFIG} the rank {rank}"
            )
        scale = alphas.of(name) / (math.sqrt(rank) if config.get("use_rslora") else rank)
        down, up = checkpoint.take_floats(tensor, down_shape), checkpoint.take_floats(stem + _UP, up_shape)
        with np.errstate(over="ignore"):
            up *= np.float32(scale)
        if not (np.isfinite(down).all() and np.isfinite(up).all()):
            raise AdapterRejected(f"{tensors}: {name} has numbers that are not finite, or not with the scale {scale:g}")
        yield name, LowRank(down, up)


def _check_names(tensors: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise AdapterRejected unless the tensors are pairs of matrices of supported modules."""
    for tensor, shape in shapes.items():
        if len(tensor) > MAX_NAME:
            raise AdapterRejected(f"{tensors}: the tensor {tensor[:50]}… has a name of more than {MAX_NAME} characters")
        if not (tensor.startswith(_PREFIX) and tensor.endswith((_DOWN, _UP)) and len(shape) == 2):
            raise AdapterRejected(f"{tensors}: the tensor {tensor} is not served; {_PREFIX}MODULE{_DOWN} and {_UP} are")
        stem = tensor.removesuffix(_DOWN).removesuffix(_UP)
        for other in (stem + _DOWN, stem + _UP):
            if other not in shapes:
                raise AdapterRejected(f"{tensors}: the tensor {other} is missing")
        if stem.rpartition(".")[2] in _UNSUPPORTED_MODULES:
            name = stem.removeprefix(_PREFIX)
            raise AdapterRejected(f"{tensors}: {name}: adapters of the embedding and of the head are not served")


def _rank(file: Path, ranks: _ModuleValues, module: str, max_rank: int) -> int:
    """Return the rank of a module. Raise AdapterRejected if it is invalid or exceeds `max_rank`."""
    rank = ranks.of(module)
    if not rank.is_integer() or rank < 1:
        raise AdapterRejected(f"{file}: r: the rank of {module} must be a whole number of at least 1, not {rank!r}")
    if rank > max_rank:
        raise AdapterRejected(f"{file}: r: {rank:g} of {module} exceeds engine.max_adapter_rank, {max_rank}")
    return int(rank)


@dataclass(frozen=True, slots=True)
class _ModuleValues:
    """A number for each module: of the first pattern that fits its name, otherwise the default of all modules."""

    file: Path
    field: str
    default: Any
    overrides: Mapping[str, tuple[ModulePattern, Any]]  # by the patterns' fields

    @classmethod
    def read(cls, file: Path, config: dict[str, Any], field: str, patterns: str) -> _ModuleValues:
        """Read two fields. Raise AdapterRejected for an unusable pattern."""
        given = config.get(patterns) or {}
        if not isinstance(given, dict):
            raise AdapterRejected(f"{file}: {patterns} must be an object of numbers")
        overrides = {}
        for pattern, value in given.items():
            try:
                overrides[f"{patterns}.{pattern}"] = ModulePattern(pattern), value
            except ValueError as error:
                raise AdapterRejected(f"{file}: {patterns}: {pattern[:100]!r} {error}") from error
        return cls(file, field, config.get(field), overrides)

    def of(self, module: str) -> float:
        """Return a module's number. Raise AdapterRejected if it is none."""
        named, value = self.field, self.default
        for override, (pattern, each) in self.overrides.items():
            if pattern.fits(module):
                named, value = override, each
                break
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= _LARGEST:
            raise AdapterRejected(f"{self.file}: {named} must be a number, not {repr(value)[:50]}")
        return float(value)

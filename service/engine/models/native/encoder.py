"""Encoders and cross-encoders on CPUs with `sluice_native`: one call per batch of whole texts, without padding.

A text's vector does not depend on the other texts of a batch or on the number of threads.
"""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.engine.models.checkpoint.checkpoint import Checkpoint, TensorSlice
from service.engine.models.checkpoint.encoders.sentence_files import Pooling, SentenceFiles
from service.engine.models.native.backend import (
    PACKED,
    WEIGHT_TYPES,
    native_arithmetic_unsupported_reason,
    threads_a_token,
)
from service.engine.models.native.block_sources import BlockSources, has_blocks
from service.engine.models.native.vector_layers import ACTIVATIONS, VectorLayer, load_dense_layer, load_head_layer
from service.engine.models.plans.families.encoders.table import encoder_family
from service.engine.models.plans.families.table import family_plan
from service.engine.models.plans.plan import DecoderPlan, PlanUnsupportedError
from service.engine.models.plans.sources import as_floats, read_tensors
from service.generation.errors import ModelLoadError
from service.generation.requests.embedding import TokenIds, Vector

if TYPE_CHECKING:
    import sluice_native

Ints: TypeAlias = NDArray[np.int32]
_OLD_NAMES: Final = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


@dataclass(frozen=True, slots=True)
class TextVectors:
    """The computation of a text's vector, or of a pair's score, from the states of its tokens."""

    pooling: Pooling
    layers: abc.Sequence[VectorLayer] = ()
    normalises: bool = False

    def rows(self, offsets: Ints) -> Ints:
        """Return the tokens whose states are needed, given where each text begins and the last one ends."""
        if self.pooling == "mean":
            return np.arange(offsets[-1], dtype=np.int32)
        return np.ascontiguousarray(offsets[:-1] if self.pooling == "cls" else offsets[1:] - 1)

    def vector(self, states: NDArray[np.float32]) -> Vector:
        """Return the vector of one text from the states [rows, hidden size] of its rows."""
        vector = np.ascontiguousarray(states.mean(0) if self.pooling == "mean" else states[0])
        for layer in self.layers:
            vector = layer(vector)
        if self.normalises:
            vector = vector / np.maximum(np.sqrt((vector * vector).sum()), np.float32(1e-12))
        return vector


class NativeEncoder:
    """An EncoderRunner that runs `sluice_native.Model`."""

    def __init__(
        self,
        model: sluice_native.Model,
        plan: DecoderPlan,
        vectors: TextVectors,
        *,
        max_positions: int | None,
        most_threads: int,
        has_segments: bool = False,
    ) -> None:
        """Encode one token to learn the number of dimensions. With `has_segments`, second texts have the type 1."""
        self._model = model
        self._vectors = vectors
        self._has_segments = has_segments and plan.num_types > 1
        self._most_threads = most_threads
        multiplied = {name: shape for name, shape in model.tensors().items() if not name.startswith("model.embed_")}
        self._threads_a_token = threads_a_token(multiplied, plan)
        self.max_positions = max_positions
        self.num_dimensions = len(self.run([np.zeros(1, np.int64)])[0])

    def run(self, inputs: abc.Sequence[TokenIds], second_starts: abc.Sequence[int] = ()) -> abc.Sequence[Vector]:
        """Return the vectors, float32 [dimensions] each, in the order of the inputs."""
        offsets = np.zeros(len(inputs) + 1, np.int32)
        np.cumsum([len(each) for each in inputs], out=offsets[1:])
        num_tokens = int(offsets[-1])
        types = self._types(offsets, second_starts) if self._has_segments and second_starts else None
        states = self._model.encode(
            np.concatenate(inputs).astype(np.int32),
            offsets,
            self._vectors.rows(offsets),
            types,
            num_threads=max(1, min(int(num_tokens * self._threads_a_token), self._most_threads)),
        )
        ends = offsets if self._vectors.pooling == "mean" else range(len(offsets))
        return [self._vectors.vector(states[ends[i] : ends[i + 1]]) for i in range(len(inputs))]

    def _types(self, offsets: Ints, second_starts: abc.Sequence[int]) -> Ints:
        """Return the type of each token: 1 in the second text of a pair."""
        types = np.zeros(offsets[-1], np.int32)
        for index, start in enumerate(second_starts):
            if start:
                types[offsets[index] + start : offsets[index + 1]] = 1
        return types


def native_encoder_unsupported_reason(config: Any, dtype: str, device: str, files: SentenceFiles | None) -> str | None:
    """Return why the native step does not support an encoder, or None if it does. A cross-encoder has no `files`."""
    if reason := native_arithmetic_unsupported_reason(dtype, device):
        return reason
    if getattr(config, "is_part", False):
        return "it is a part of a multimodal model"
    for each in () if files is None else files.dense:
        if each.activation not in ACTIVATIONS:
            return f"activation_function is {each.activation}"
    try:
        family = encoder_family(config)
        family_plan(family.family, config)
        if files is None:
            family.head(config)
    except PlanUnsupportedError as error:
        return str(error)
    return None


def native_encoder_block_type(config: Any, checkpoint: Checkpoint) -> str | None:
    """Return the type of a supported encoder's weights if they are multiplied in the checkpoint's blocks."""
    family = encoder_family(config).family
    plan = family_plan(family, config)
    tensors = family.tensors_in(_Names(checkpoint).__contains__, plan)
    return checkpoint.block_type if has_blocks(checkpoint, plan, tensors) else None


def native_max_positions(config: Any) -> int | None:
    """Return the number of tokens that a supported encoder has positions for, or None if they are unlimited."""
    return _max_positions(config, family_plan(encoder_family(config).family, config))


def load_native_encoder(
    config: Any, checkpoint: Checkpoint, files: SentenceFiles, weight_type: str, most_threads: int
) -> NativeEncoder:
    """Load and pack an encoder's weights. Raise ModelLoadError for a missing or wrongly shaped tensor."""
    layers = [load_dense_layer(each) for each in files.dense]
    vectors = TextVectors(files.pooling, layers, files.normalises)
    model, plan = _load(config, checkpoint, weight_type, most_threads)
    return NativeEncoder(model, plan, vectors, max_positions=_max_positions(config, plan), most_threads=most_threads)


def load_native_cross_encoder(
    config: Any, checkpoint: Checkpoint, weight_type: str, most_threads: int, *, has_segments: bool
) -> NativeEncoder:
    """Load and pack a cross-encoder's weights. Raise ModelLoadError for a missing or wrongly shaped tensor."""
    head = encoder_family(config).head(config)
    names = _Names(checkpoint)
    hidden_size = config.hidden_size
    layers = [load_head_layer(layer, names.floats, hidden_size, hidden_size) for layer in head.layers[:-1]]
    layers.append(load_head_layer(head.layers[-1], names.floats, hidden_size, 1))
    model, plan = _load(config, checkpoint, weight_type, most_threads)
    return NativeEncoder(
        model,
        plan,
        TextVectors(head.pooling, layers),
        max_positions=_max_positions(config, plan),
        most_threads=most_threads,
        has_segments=has_segments,
    )


class _Names:
    """The tensors of a checkpoint by the names of a family, which have a prefix that the checkpoint may lack."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def __contains__(self, name: str) -> bool:
        return self._stored(name) in self._checkpoint

    def take(self, name: str, shape: tuple[int, ...], part: TensorSlice | None = None) -> NDArray[Any]:
        return self._checkpoint.take(self._stored(name), shape, part)

    def floats(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        return as_floats(self.take(name, shape))

    def _stored(self, name: str) -> str:
        """Return the name in the checkpoint: with or without the prefix, and with old names of norms."""
        names = [name, name.partition(".")[2]]
        for new, old in _OLD_NAMES.items():
            names += [each.removesuffix(new) + old for each in names if each.endswith(new)]
        return next((each for each in names if each in self._checkpoint), name)


def _load(
    config: Any, checkpoint: Checkpoint, weight_type: str, most_threads: int
) -> tuple[sluice_native.Model, DecoderPlan]:
    import sluice_native  # noqa: PLC0415  it exists only if it was built

    family = encoder_family(config).family
    plan = family_plan(family, config)
    names = _Names(checkpoint)
    tensors = family.tensors_in(names.__contains__, plan)
    blocks = BlockSources(checkpoint, plan, tensors)
    in_blocks = weight_type in WEIGHT_TYPES and has_blocks(checkpoint, plan, tensors)
    try:
        model = sluice_native.Model(
            plan.to_native(),
            num_threads=most_threads,
            weight_type=PACKED if in_blocks else weight_type,
            kinds=blocks.kind_of,
        )
    except ValueError as error:
        raise ModelLoadError(f"{checkpoint.folder}: {error}") from error
    for name, tensor in read_tensors(model.tensors(), plan, tensors, blocks.take if in_blocks else names.take):
        if tensor.dtype == np.uint8:
            model.load_blocks(name, tensor, blocks.order_of(name))
        else:
            model.load(name, tensor)
    return model, plan


def _max_positions(config: Any, plan: DecoderPlan) -> int | None:
    """Return the number of tokens that a model has positions for, or None if its positions are unlimited."""
    if plan.num_positions:
        return plan.num_positions - plan.first_position
    longest: int | None = getattr(config, "max_position_embeddings", None)
    return longest

"""Llama-like decoders on CPUs with `sluice_native`: one call per step, over packed weights.

A row's logits do not depend on the rest of the batch, prompt chunks, cached prefixes, preemption or the number of
threads. Norm weights, biases and accumulators are float32. See `native/README.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from service.engine.core.batch import Batch, Int32s
from service.engine.interface.cache_group import CacheGroup
from service.engine.models.checkpoint.adapter_files import Adapter
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.interface.model_spec import AUTO
from service.engine.models.native.block_sources import BlockSources, has_blocks
from service.engine.models.native.cache_groups import group_plan, one_group
from service.engine.models.plans.adapter_modules import to_step_modules
from service.engine.models.plans.expert_sources import is_expert_tensor
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.models.plans.plan import DecoderPlan, LatentPlan, PlanUnsupportedError
from service.engine.models.plans.sources import Tensors, read_tensors
from service.engine.models.plans.stored_head import with_stored_head
from service.generation.errors import ModelLoadError

if TYPE_CHECKING:
    import sluice_native

QUANTIZATIONS = frozenset({"int8", "int4"})
WEIGHT_TYPES = ("float32", "bfloat16")
_SLOTS = 16  # the block size must be a multiple of it
# The multiplications of weights and tokens per thread, about 30 µs. With less work, synchronization costs more.
_WORK_OF_A_THREAD = 2.5e6
PACKED = "packed"
_LAYER_INPUTS = "model.embed_tokens_per_layer.weight"  # a table of which a token reads one row
_DERIVED = ("rotary_emb.inv_freq",)  # some old checkpoints store tensors that the configuration implies


class NativeBackend:
    """A Backend that runs `sluice_native.Model`. Its logits are numpy views of the native model's memory."""

    def __init__(self, model: sluice_native.Model, plan: DecoderPlan, tensors: Tensors, most_threads: int) -> None:
        """`most_threads` limits the threads of a step; a short step uses fewer."""
        self._model = model
        self._plan = plan
        self._tensors = tensors
        self._groups = one_group(len(plan.layers))
        self.num_threads = 1  # for short steps and for sampling
        self._most_threads = most_threads
        self._threads_a_token = threads_a_token(model.tensors(), plan)
        self._file = -1  # of the cache; -1: the cache is in memory of this process
        self._offsets: Sequence[int] = (0, 0)

    def group_layers(self, max_positions: int, *, keeps_all: bool) -> Sequence[CacheGroup]:
        """Give layers whose windows are shorter than `max_positions` block tables of their own; return the groups."""
        self._groups = group_plan(self._plan, max_positions, self._model.bytes_per_slot)
        if keeps_all and self._groups.groups[0].window:
            self._groups = one_group(len(self._plan.layers))
        return self._groups.groups

    def bytes_per_block(self, block_size: int) -> int:
        """Return the bytes of a block: the keys and values of `block_size` tokens in the layers of a group."""
        return self._groups.block_size(self._model.bytes_per_slot) * block_size

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Allocate the cache; the system commits its memory when it is first written."""
        self._model.allocate(num_blocks, block_size, self._groups.of_layer, self._file, self._offsets[0])

    def place_cache(self, file: int, offsets: Sequence[int]) -> None:
        """Let the next allocations be in an open file: blocks and, if there are any, states from these offsets on."""
        self._file, self._offsets = file, offsets

    def cache_rows(self) -> Sequence[NDArray[np.uint8]]:
        """Return the bytes of all blocks [blocks, bytes of a block], valid until the next allocation."""
        return [self._model.cache_rows()]

    def put_adapter(self, slot: int, adapter: Adapter) -> None:
        """Store an adapter in a slot, for batches that refer to the slot. Raise AdapterRejected if unsupported."""
        self._model.put_adapter(slot, to_step_modules(adapter, self._model.tensors(), self._plan, self._tensors))

    def drop_adapter(self, slot: int) -> None:
        """Remove the adapter of a slot."""
        self._model.drop_adapter(slot)

    def prepare_thread(self, num_threads: int | None) -> None:
        """Set the number of threads that compute."""
        self.num_threads = num_threads or 1

    def forward(self, batch: Batch) -> NDArray[np.float32]:
        """Store the batch's keys and values, and return the logits, float32 [output rows, vocabulary]."""
        return self._model.step(
            batch.token_ids,
            batch.positions,
            batch.row_offsets,
            batch.context_lengths,
            batch.block_tables,
            batch.output_rows,
            num_threads=self._num_threads_for(len(batch.token_ids)),
            adapters=batch.adapters,
            states=batch.states,
        )

    @property
    def ends_steps(self) -> bool:
        """True: a step looks at the arrivals before each layer."""
        return True

    def forward_until(self, batch: Batch, arrivals: Int32s) -> NDArray[np.float32] | None:
        """Compute a step of a model without states, but return None as soon as arrivals[0] exceeds arrivals[1]."""
        return self._model.step(
            batch.token_ids,
            batch.positions,
            batch.row_offsets,
            batch.context_lengths,
            batch.block_tables,
            batch.output_rows,
            num_threads=self._num_threads_for(len(batch.token_ids)),
            adapters=batch.adapters,
            arrivals=arrivals,
        )

    def _num_threads_for(self, num_tokens: int) -> int:
        return max(self.num_threads, min(int(num_tokens * self._threads_a_token), self._most_threads))


class RecurrentBackend(NativeBackend):
    """A NativeBackend of a model with recurrent layers, whose sequences have a state in a slot."""

    @property
    def bytes_per_sequence(self) -> int:
        """The bytes of a sequence's state in all layers."""
        return self._model.bytes_per_state

    @property
    def ends_steps(self) -> bool:
        """False: a step changes states in place."""
        return False

    @property
    def splits_states(self) -> bool:
        """True: a step can keep the state before its last tokens."""
        return True

    def allocate_states(self, num_states: int) -> None:
        """Create the slots of states; the system commits their memory when it is first written."""
        self._model.allocate_states(num_states, self._file, self._offsets[1])

    def cache_rows(self) -> Sequence[NDArray[np.uint8]]:
        """Return the bytes of all blocks and of all states [slots, bytes of a state]."""
        return [self._model.cache_rows(), self._model.state_rows()]

    def forget(self, slot: int) -> None:
        """Do nothing, because a sequence that starts in a slot ignores its content."""


def threads_a_token(shapes: dict[str, tuple[int, ...]], plan: DecoderPlan) -> float:
    """Return the number of threads that the work of a token is worth, given the shapes of the model's tensors."""
    return _weights_a_token(shapes, plan) / _WORK_OF_A_THREAD


def _weights_a_token(shapes: dict[str, tuple[int, ...]], plan: DecoderPlan) -> float:
    """Return the number of weights that a token is multiplied with: of experts, only those of the chosen ones."""
    num_weights = 0.0
    for name, shape in shapes.items():
        if name == _LAYER_INPUTS:
            continue
        share = 1.0
        if is_expert_tensor(name):
            experts = plan.layers[int(name.split(".")[2])].routed
            if experts is not None:
                share = experts.num_chosen / experts.num_experts
        num_weights += share * math.prod(shape)
    return num_weights


def native_arithmetic_unsupported_reason(dtype: str, device: str) -> str | None:
    """Return why the native step can't compute in a type on a device, or None if it can."""
    if find_spec("sluice_native") is None:
        return "sluice-native is not installed"
    if device != "cpu":
        return f"it computes on CPUs, not on {device}"
    if not _has_instruction_set():
        return "sluice-native was built for another CPU; `sluice doctor` says how to build it for this one"
    return None if dtype in WEIGHT_TYPES else f"it has no arithmetic in {dtype}"


def _has_instruction_set() -> bool:
    import sluice_native  # noqa: PLC0415  it exists only if it was built

    return bool(sluice_native.instruction_sets())


def native_unsupported_reason(
    config: Any, dtype: str, device: str, block_size: int, cache_dtype: str = AUTO
) -> str | None:
    """Return why the native backend does not support a model, or None if it does."""
    if reason := native_arithmetic_unsupported_reason(dtype, device):
        return reason
    if block_size % _SLOTS != 0:
        return f"engine.block_size must be a multiple of {_SLOTS} for it, not {block_size}"
    try:
        plan = plan_of(config)
    except PlanUnsupportedError as error:
        return str(error)
    if cache_dtype == "int8" and any(isinstance(layer.attention, LatentPlan) for layer in plan.layers):
        return "it stores latents in bfloat16 or float16, not in int8 (engine.kv_cache_dtype)"
    return None


def native_takes_blocks(config: Any, checkpoint: Checkpoint) -> bool:
    """Return whether the native backend multiplies a checkpoint's weights in their blocks, and doesn't widen them."""
    plan = plan_of(config)
    return has_blocks(checkpoint, plan, FAMILIES[config.model_type].tensors_in(checkpoint.__contains__, plan))


def native_arithmetic() -> str:
    """Return the native module's version and instruction set, which determine the bits of its results."""
    import sluice_native  # noqa: PLC0415  it exists only if it was built

    return f"{version('sluice-native')} {sluice_native.instruction_sets()[0]}"


def load_native(
    config: Any,
    checkpoint: Checkpoint,
    dtype: str,
    most_threads: int,
    quantization: str | None = None,
    *,
    cache_dtype: str = "auto",
) -> NativeBackend:
    """Load and pack a checkpoint's weights, quantized if `quantization` is set, in its blocks, or otherwise in `dtype`.

    `most_threads` is the number of threads of long steps. `cache_dtype` auto is `dtype`. Raise ModelLoadError for a
    missing, unexpected or wrongly shaped tensor.
    """
    import sluice_native  # noqa: PLC0415  it exists only if it was built

    plan = plan_of(config)
    tensors = FAMILIES[config.model_type].tensors_in(checkpoint.__contains__, plan)
    plan = with_stored_head(plan, tensors, checkpoint)
    takes_blocks = quantization is None and has_blocks(checkpoint, plan, tensors)
    blocks = BlockSources(checkpoint, plan, tensors)
    weight_type = PACKED if takes_blocks else quantization or dtype
    try:
        model = sluice_native.Model(
            plan.to_native(),
            num_threads=most_threads,
            weight_type=weight_type,
            cache_type=dtype if cache_dtype == AUTO else cache_dtype,
            kinds=blocks.kind_of,
        )
    except ValueError as error:
        raise ModelLoadError(f"{checkpoint.folder}: {error}") from error
    for name, tensor in read_tensors(model.tensors(), plan, tensors, blocks.take):
        if tensor.dtype == np.uint8:
            model.load_blocks(name, tensor, blocks.order_of(name))
        else:
            model.load(name, tensor)
    unused = tensors.unused_in((name for name, _, _ in checkpoint.describe()), plan)
    derived = (*_DERIVED, *unused)
    checkpoint.require_all_taken(known=(*derived, "lm_head.weight") if plan.is_tied else derived)
    backend = RecurrentBackend if model.bytes_per_state else NativeBackend
    return backend(model, plan, tensors, most_threads)

"""Llama-like decoders on CPUs by `sluice_native`: one call per step, over packed weights.

A row's logits don't depend on what else is in the step: batch, chunks of a prompt, cached prefixes, preemption, number
of threads. The weights of norms and biases are float32, as are the sums; `native/README.md` says how.
"""

from __future__ import annotations

import math
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from service.engine.core.batch import Batch
from service.engine.models.checkpoint.adapter_files import Adapter
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.rope import rope_frequencies
from service.engine.models.native.adapter import native_modules
from service.generation.errors import ModelLoadError

if TYPE_CHECKING:
    import sluice_native

_SERVED_TYPES = ("llama", "mistral", "qwen2", "qwen3", "smollm3")
_SERVED_ROPES = {"default", "linear", "llama3", "yarn"}
_SERVED_LAYERS = {"full_attention", "sliding_attention"}
QUANTIZATIONS = frozenset({"int8", "int4"})
_WEIGHT_TYPES = ("float32", "bfloat16")
_SLOTS = 16  # a block has a multiple of them
# Products of weights and tokens that a thread is worth: some 30 µs. With fewer, threads wait for each other for longer.
_WORK_OF_A_THREAD = 2.5e6
_DERIVED = ("rotary_emb.inv_freq",)  # some old checkpoints store what the configuration implies


class NativeBackend:
    """A Backend over `sluice_native.Model`. Its logits are numpy's, over the native step's own memory."""

    def __init__(self, model: sluice_native.Model, most_threads: int) -> None:
        """`most_threads` compute, or as many as a step has work for."""
        self._model = model
        self.num_threads = 1  # of a short step, and of what samples from it
        self._most_threads = most_threads
        num_weights = sum(math.prod(shape) for shape in model.tensors().values())
        self._threads_a_token = num_weights / _WORK_OF_A_THREAD

    def bytes_per_block(self, block_size: int) -> int:
        """Bytes of cache for the keys and values of `block_size` tokens."""
        return self._model.bytes_per_slot * block_size

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Make the cache; its memory is given when it is written."""
        self._model.allocate(num_blocks, block_size)

    def put_adapter(self, place: int, adapter: Adapter) -> None:
        """Hold an adapter for the sequences of batches that name its place. Raises AdapterRefused."""
        self._model.put_adapter(place, native_modules(adapter, self._model.tensors()))

    def drop_adapter(self, place: int) -> None:
        """Forget the adapter of a place."""
        self._model.drop_adapter(place)

    def prepare_thread(self, num_threads: int | None) -> None:
        """Set how many threads compute."""
        self.num_threads = num_threads or 1

    def forward(self, batch: Batch) -> NDArray[np.float32]:
        """Store the batch's keys and values and return the logits, float32 [output rows, vocabulary]."""
        return self._model.step(
            batch.token_ids,
            batch.positions,
            batch.row_offsets,
            batch.context_lengths,
            batch.block_tables,
            batch.output_rows,
            num_threads=self._num_threads_for(len(batch.token_ids)),
            adapters=batch.adapters,
        )

    def _num_threads_for(self, num_tokens: int) -> int:
        return max(self.num_threads, min(int(num_tokens * self._threads_a_token), self._most_threads))


def native_refusal(config: Any, dtype: str, device: str, block_size: int) -> str | None:
    """Why the native step can't serve a model; None if it can."""
    rope = getattr(config, "rope_parameters", None) or {}
    reasons = (
        (find_spec("sluice_native") is None, "sluice-native is not installed"),
        (device != "cpu", f"it computes on CPUs, not on {device}"),
        (config.model_type not in _SERVED_TYPES, f"it is none of {', '.join(_SERVED_TYPES)}"),
        (dtype not in _WEIGHT_TYPES, f"it has no arithmetic in {dtype}"),
        (block_size % _SLOTS != 0, f"engine.block_size must be a multiple of {_SLOTS} for it, not {block_size}"),
        (getattr(config, "hidden_act", "silu") != "silu", f"its activation is {getattr(config, 'hidden_act', '')}"),
        (set(getattr(config, "layer_types", None) or ()) - _SERVED_LAYERS, "it has layers of another kind"),
        (rope.get("rope_type", "default") not in _SERVED_ROPES, f"its rope type is {rope.get('rope_type')}"),
        (rope.get("partial_rotary_factor", 1.0) != 1.0, "its rotary positions are partial"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def native_arithmetic() -> str:
    """The native step's version and the instruction set that it uses here: with the same ones bits are the same."""
    import sluice_native  # noqa: PLC0415  it is there only where it was built

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
    """Pack a checkpoint's weights, rounded to one of `QUANTIZATIONS` if one is given, else in `dtype`.

    `most_threads` compute long steps. `cache_dtype` auto is float32 for float32 weights, and bfloat16 for others.
    Raises ModelLoadError for a missing, unexpected or wrongly shaped tensor.
    """
    import sluice_native  # noqa: PLC0415  it is there only where it was built

    weight_type = quantization or dtype
    try:
        model = sluice_native.Model(
            **_shape(config), num_threads=most_threads, weight_type=weight_type, cache_type=cache_dtype
        )
    except ValueError as error:
        raise ModelLoadError(f"{checkpoint.folder}: {error}") from error
    for name, shape in model.tensors().items():
        model.load(name, checkpoint.take(name, shape))
    is_tied = config.tie_word_embeddings
    checkpoint.require_all_taken(known=(*_DERIVED, "lm_head.weight") if is_tied else _DERIVED)
    return NativeBackend(model, most_threads)


def _shape(config: Any) -> dict[str, Any]:
    """The native model's sizes and switches."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    frequencies, factor = rope_frequencies(config, head_dim)
    attention_bias = getattr(config, "attention_bias", False)
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_layers": config.num_hidden_layers,
        "num_heads": config.num_attention_heads,
        "num_kv_heads": config.num_key_value_heads,
        "head_dim": head_dim,
        "norm_epsilon": config.rms_norm_eps,
        "inverse_frequencies": frequencies.tolist(),
        "rope_factor": factor,
        "has_qkv_bias": attention_bias or config.model_type == "qwen2",
        "has_output_bias": attention_bias,
        "has_mlp_bias": getattr(config, "mlp_bias", False),
        "has_head_norm": config.model_type == "qwen3",
        "is_tied": config.tie_word_embeddings,
        "windows": _windows(config),
        "has_rope": [bool(each) for each in config.no_rope_layers] if config.model_type == "smollm3" else None,
    }


def _windows(config: Any) -> list[int]:
    """How many tokens a token sees in each layer, itself included; 0 for all."""
    window = getattr(config, "sliding_window", None) or 0
    default = ["sliding_attention" if window else "full_attention"] * config.num_hidden_layers
    kinds = getattr(config, "layer_types", None) or default
    return [window if kind == "sliding_attention" else 0 for kind in kinds]

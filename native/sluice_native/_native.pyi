# ruff: noqa: PYI021  the module is compiled: what it does is told here

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class Model:
    """A Llama-like decoder: packed weights, a paged cache of keys and values, and the step over both.

    Every error in an argument is a ValueError whose text begins with the argument's name.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        hidden_size: int,
        intermediate_size: int,
        num_layers: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        norm_epsilon: float,
        inverse_frequencies: Sequence[float],
        rope_factor: float = 1.0,
        has_qkv_bias: bool = False,
        has_output_bias: bool = False,
        has_mlp_bias: bool = False,
        has_head_norm: bool = False,
        is_tied: bool = False,
        windows: Sequence[int] | None = None,
        has_rope: Sequence[bool] | None = None,
        weight_type: str = "float32",
        cache_type: str = "auto",
        num_threads: int = 1,
        instruction_set: str = "auto",
    ) -> None:
        """Reserve memory for the weights; it is given when they are loaded.

        `inverse_frequencies` and `rope_factor` (on cosine and sine) include any scaling of rotary positions; fewer than
        head_dim / 2 frequencies rotate only the first part of a head. `windows` has for each layer the number of tokens
        that a token attends to, including itself, 0 for all; `has_rope` has which layers rotate. `weight_type` is
        float32, bfloat16, int8 (a scale per row, activations rounded per token) or int4 (a scale for 32 columns of a
        row; the head has eight bits). Norms and biases are float32. `cache_type` is the type of cached keys and values:
        float32, bfloat16, float16 (which saturates at its largest number) or auto, which is float32 for float32 weights
        and bfloat16 for the others. `instruction_set` is one of `instruction_sets()`.
        """

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all tensors, as checkpoints of Llama and its kin have them."""

    def load(self, name: str, tensor: Any) -> None:
        """Pack one tensor: contiguous, on the CPU; float32, bfloat16 (or its bits as uint16) or float16."""

    def missing(self) -> list[str]:
        """Names of the tensors that are not loaded yet."""

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Make the cache; memory is given when it is written. `block_size` is a multiple of 16."""

    def put_adapter(self, place: int, modules: Sequence[tuple[str, NDArray[np.float32], NDArray[np.float32]]]) -> None:
        """Hold a LoRA adapter at a place, any number of at least 0, instead of what was there; steps wait meanwhile.

        `modules` has for each module that it changes the name, such as model.layers.0.self_attn.q_proj, and the two
        contiguous matrices down [rank, inputs] and up [outputs, rank]: up · down is what is added to the weight. They
        are kept as float32 beside float32 weights and as bfloat16 beside others.
        """

    def drop_adapter(self, place: int) -> None:
        """Forget the adapter of a place, and give its memory back."""

    def step(
        self,
        token_ids: NDArray[np.int32],
        positions: NDArray[np.int32],
        row_offsets: NDArray[np.int32],
        context_lengths: NDArray[np.int32],
        block_tables: NDArray[np.int32],
        output_rows: NDArray[np.int32],
        logits: NDArray[np.float32] | None = None,
        num_threads: int = 0,
        adapters: NDArray[np.int32] | None = None,
    ) -> NDArray[np.float32]:
        """Compute the new tokens of a batch, prefills and decodes alike; other Python threads run meanwhile.

        `token_ids`, `positions` [tokens]; `row_offsets` [sequences + 1], where each sequence's new tokens begin;
        `context_lengths` [sequences], tokens after the step; `block_tables` [sequences, blocks], of which those that
        hold the context are read; `output_rows` [rows], the tokens whose logits are wanted, in any order. A token's
        place in the cache follows from `context_lengths`, `positions` only turn queries and keys. `adapters`
        [sequences] are the places of the sequences' adapters, -1 for none.

        Returns the logits [rows, vocabulary], which are `logits` if that is given: fresh memory costs time.
        `num_threads` 0 is the model's own number. A row's bits depend on nothing but its sequence, its adapter, the
        model and the instruction set. One step at a time; others wait. RuntimeError before all tensors are loaded and
        a cache made.
        """

    def read_weights(self, num_threads: int = 0) -> float:
        """Seconds to read all weights once: no decode step takes less."""

    def multiply_rate(self, num_threads: int = 0) -> float:
        """Products of two numbers a second, added up in registers, of the type that the layers' weights take.

        No step of many tokens does more; int4's products are those of bfloat16.
        """

    @property
    def bytes_per_slot(self) -> int:
        """Bytes of cache for one token, in all layers."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of memory for weights."""

    @property
    def adapter_bytes(self) -> int:
        """Bytes of memory for adapters."""

    @property
    def instruction_set(self) -> str:
        """The instruction set in use."""

def instruction_sets() -> list[str]:
    """The instruction sets that can run here, best first."""

class DrawParams:
    """How a row's token is drawn. The fields, their ranges and defaults are those of `src/sampling.h`; immutable."""

    def __init__(self, **params: float) -> None:
        """Set fields by name; those that are not given draw from the logits as they are.

        Raises TypeError for a name that is no field, and ValueError for a value out of the field's range.
        """

    def __getattr__(self, name: str) -> float:
        """Return the value of a field."""

def sample(
    logits: NDArray[np.float32],
    rows: Sequence[int],
    params: Sequence[DrawParams],
    uniforms: Sequence[float],
    num_threads: int = 1,
    instruction_set: str = "auto",
) -> list[int]:
    """Choose a token for each of the `rows` of `logits` [any, vocabulary], which stay as they are.

    A greedy row takes its largest logit; otherwise the token at the row's `uniforms` part of the sum of weights, in the
    order of the token ids, among those that the filters of `params` leave; tokens of equal logits are kept or dropped
    together. -1 for a row whose largest logit is not finite. A token depends on nothing but its row, parameters, number
    and instruction set.
    """

def uniforms(seeds: Sequence[int], indices: Sequence[int]) -> list[float]:
    """A number in [0, 1) for each pair of a 64-bit seed and an index: SplitMix64, `index` steps from the mixed seed."""

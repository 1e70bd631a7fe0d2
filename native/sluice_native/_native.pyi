# ruff: noqa: PYI021  the module is compiled, so its documentation is here

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

class Model:
    """A decoder with packed weights and a paged cache of keys and values, or an encoder without a cache.

    An invalid argument raises a ValueError whose text begins with the argument's name, or with the path of a field of
    the plan.
    """

    def __init__(
        self,
        plan: dict[str, Any],
        *,
        weight_type: str = "float32",
        cache_type: str = "auto",
        num_threads: int = 1,
        instruction_set: str = "auto",
        kinds: Callable[[str], str] | None = None,
    ) -> None:
        """Reserve address space for the weights; physical memory is allocated as they are loaded.

        `plan` has the fields that `src/plan_fields.h` lists and `src/plan.h` describes, all of them, and two lists:
        `layers`, and the tables of rotary positions in `rotary`, each with `inverse_frequencies` and a `factor` on
        cosine and sine. Fewer than head_dim / 2 frequencies rotate only the first part of a head.

        `weight_type` is float32, bfloat16, int8 (one scale per row, activations quantized per token) or int4 (one scale
        per 32 columns of a row; the head has eight bits) or packed: matrices are computed in the block formats of their
        files, which `kinds` returns by the name of a tensor. They are those of llama.cpp (q4_0, q4_1, q5_0, q5_1, q8_0,
        q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4), nvfp4, numbers (float32, float16, bfloat16), and codes
        with scales and zero points, uB.gN.T: B bits (2, 3, 4 or 8), N columns per scale (16, 32, 64, 128 or 256) of the
        type T (float32, float16 or bfloat16). Their products are exact but for activations, which are rounded to 16
        bits with a scale per 32 columns. Norms and biases are float32. `cache_type` is the type of cached keys and
        values: float32, bfloat16, float16 (which saturates at its largest number), int8 (with a float32 scale for each
        32 dimensions of a key and one for a head's value; not with latents) or auto, which is float32 for float32
        weights, float16 for packed ones and bfloat16 for all other types. `instruction_set` is one of
        `instruction_sets()`, or auto for the best.
        """

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Return the names and shapes of all tensors.

        The names are those of Llama's checkpoints, and of GLM-4's for the norms of a part's results. Encoders also have
        `model.embed_positions`, `model.embed_types`, `model.embed_norm` and, in a layer, `attention_sum_norm` and
        `mlp_sum_norm`.
        """

    def load(self, name: str, tensor: Any) -> None:
        """Pack one tensor. It must be contiguous, on the CPU, and float32, float16, bfloat16 or bfloat16 as uint16."""

    def load_blocks(self, name: str, blocks: NDArray[np.uint8], order: NDArray[np.int32] | None = None) -> None:
        """Pack one matrix of packed weights from the blocks of its rows, contiguous and uint8 [rows, bytes of a row].

        `order` has the input of each column; None: column i has input i. Tensors of one matrix (queries, keys and
        values; gate and up) must have the same. Only matrices of attention and of dense feed-forward parts can have
        one.

        A row of uB.gN.T is, for each N columns, four bytes that begin with the scale, the code that means 0, three
        unused bytes, and a byte for each column's code. A row of nvfp4 is, for each 16 columns, the matrix' scale in
        float32, the block's in e4m3, three unused bytes, and 8 bytes of e2m1 numbers, the lower half of a byte first.
        """

    def missing(self) -> list[str]:
        """Return the names of the tensors that are not loaded yet."""

    def allocate(
        self, num_blocks: int, block_size: int, groups: Sequence[int] = (), file: int = -1, offset: int = 0
    ) -> None:
        """Create the cache; physical memory is allocated on first write. `block_size` is a multiple of 16.

        `groups` has the group of each layer, from 0 on; by default all layers are in one group. A block holds the keys
        and values of one group's layers, and each group has its own block tables. In a group whose layers all have a
        window, entries before the blocks that a step's tokens attend to are not read.

        The cache is in the open file with the descriptor `file` from `offset` on, a multiple of 4,096, where other
        processes can map it; in memory of its own if `file` is -1. Its previous content is kept.
        """

    def allocate_states(self, num_states: int, file: int = -1, offset: int = 0) -> None:
        """Create slots for the states of sequences in recurrent layers, `bytes_per_state` each, as `allocate` does."""

    def cache_rows(self) -> NDArray[np.uint8]:
        """Return the cache as writable bytes [blocks, bytes of a block], valid until the next `allocate`.

        The bytes of a block of which all tokens are computed depend only on the model, the instruction set and the
        tokens up to the block's end.
        """

    def state_rows(self) -> NDArray[np.uint8]:
        """Return the slots of states as writable bytes [slots, bytes of a state], valid until `allocate_states`."""

    def put_adapter(self, slot: int, modules: Sequence[tuple[str, NDArray[np.float32], NDArray[np.float32]]]) -> None:
        """Store a LoRA adapter in a slot, any number of at least 0, replacing the slot's adapter.

        `modules` has, for each module that the adapter changes, the name, such as model.layers.0.self_attn.q_proj, and
        the two contiguous matrices down [rank, inputs] and up [outputs, rank]; up · down is added to the weight. The
        matrices are stored as float32 if the weights are float32, and as bfloat16 otherwise. Steps wait meanwhile.
        """

    def drop_adapter(self, slot: int) -> None:
        """Remove the adapter of a slot and free its memory."""

    @overload
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
        states: NDArray[np.int32] | None = None,
        arrivals: None = None,
    ) -> NDArray[np.float32]:
        """Compute the new tokens of a batch of prefills and decodes with the GIL released.

        `token_ids`, `positions` [tokens]; `row_offsets` [sequences + 1], where each sequence's new tokens begin;
        `context_lengths` [sequences], the number of tokens after the step; `block_tables` [sequences, blocks], or
        [groups, sequences, blocks] if the cache has several groups, of which only the entries that cover the visible
        context are read; `output_rows` [rows], the tokens whose logits are returned, in
        any order. A token's cache slot follows from `context_lengths`; `positions` only rotate queries and keys.
        `adapters` [sequences] are the slots of the sequences' adapters, -1 for none.

        A model with recurrent layers needs `states` [sequences, 4]: the slot of the state that a sequence starts from,
        which is ignored at position 0; the slot for its new state, which may be the same; the number of the sequence's
        last tokens whose state goes to another slot; and that slot. The second slot then gets the state before these
        tokens, unless they are all of the sequence's new tokens. A slot that is written can't be used twice.

        Return the logits [rows, vocabulary]. They are written to `logits` if it is given, which saves the time to
        allocate memory. `num_threads` 0 is the model's own number. A row's bits depend only on its sequence, its
        adapter, the model and the instruction set. Concurrent calls run one after another. Raises RuntimeError before
        all tensors are loaded and the cache is allocated.
        """

    @overload
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
        states: None = None,
        *,
        arrivals: NDArray[np.int32],
    ) -> NDArray[np.float32] | None:
        """Compute a step that ends early as soon as `arrivals[0]` is larger than `arrivals[1]`; both may change.

        It looks at them before each layer, and then returns None. The step can be repeated: its tokens' cache slots are
        written again. A model with recurrent layers has no such steps.
        """

    def encode(
        self,
        token_ids: NDArray[np.int32],
        row_offsets: NDArray[np.int32],
        output_rows: NDArray[np.int32],
        types: NDArray[np.int32] | None = None,
        num_threads: int = 0,
    ) -> NDArray[np.float32]:
        """Compute whole texts with a plan without a head, with the GIL released; nothing is kept afterwards.

        `token_ids` [tokens] are those of all texts; `row_offsets` [texts + 1], where each text begins; `output_rows`
        [rows], the tokens whose states are returned, in any order; `types` [tokens], the token types, 0 if omitted.

        Return the states [rows, hidden size] after the last layer and the plan's final norm. A text's bits depend only
        on the text, the model and the instruction set. Raises RuntimeError before all tensors are loaded, or for a plan
        with a head.
        """

    def read_weights(self, num_threads: int = 0) -> float:
        """Measure the seconds to read all weights once, the lower bound of a decode step."""

    def multiply_rate(self, num_threads: int = 0) -> float:
        """Measure multiply-adds per second in registers, in the type of the layers' weights.

        The rate is the upper bound of a step of many tokens; int4 uses the products of bfloat16.
        """

    @property
    def bytes_per_slot(self) -> list[int]:
        """Bytes of cache per token, in each layer."""

    @property
    def bytes_per_state(self) -> int:
        """Bytes of a sequence's state in all recurrent layers; 0 if there are none."""

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
    """Return the instruction sets that this build has and this CPU supports, best first."""

def packed_product(kind: str, instruction_set: str) -> str:
    """Return what a set of this build multiplies for weights of a kind, and in how many lanes.

    The products are of "bytes", of "pairs" of 16-bit integers, or of "float32" numbers, as in `pairs x 8`. Raise
    ValueError for an unknown kind or set.
    """

class DrawParams:
    """The sampling parameters of one row, immutable. Fields, ranges and defaults are defined in `src/sampling.h`."""

    def __init__(self, **params: float) -> None:
        """Set fields by name. The defaults draw from the unmodified distribution.

        Raises TypeError for an unknown name, and ValueError for a value outside the field's range.
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
    """Return a token for each of the `rows` of `logits` [any, vocabulary], which are not modified.

    A greedy row takes its largest logit. Any other row takes the token at which the cumulative weight, in the order of
    token ids, exceeds the row's number in `uniforms` times the total weight, among the tokens that pass the filters of
    `params`. Tokens of equal logits are kept or dropped together. The token is -1 if the row's largest logit is not
    finite. A token depends only on its row, parameters, number and instruction set.
    """

def uniforms(seeds: Sequence[int], indices: Sequence[int]) -> list[float]:
    """Return a number in [0, 1) for each pair of a 64-bit seed and an index.

    The number is the output of SplitMix64 after `index` steps from the mixed seed.
    """

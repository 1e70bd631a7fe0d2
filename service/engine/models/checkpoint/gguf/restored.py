"""Restore checkpoint tensors that GGUF files store with other values, row orders or shapes, or in several parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.gguf.header import GgufTensor
from service.generation.errors import ModelLoadError

Array = npt.NDArray[Any]

ALL_HEADS: Final = ".attn_qkv."  # in the name of a tensor that has the rows of queries, then keys, then values
_GATE_AND_UP: Final = (
    ".ffn_gate_up_exps."  # in the name of a tensor that has, of each expert, gate's rows and then up's
)
_MOST_EXPERTS: Final = 1 << 12
_MOST_SIZE: Final = 1 << 20
# Suffixes of the names of tensors with another shape in a checkpoint: a file's [n] is [1, n] there, its [a, b] is
# [a, 1, b], its [a, b] is [a * b], and its [a, 1] is [a].
_ROWS: Final = ("shared_expert_gate.weight", "moe_statics.e_score_correction_bias")
_CONVOLUTIONS: Final = ("conv.conv.weight", "conv1d.weight")
_VECTORS: Final = ("mamba.norm.weight", "mixer.norm.weight")
_COLUMNS: Final = ("A_log", "mamba.D", "mixer.D")
_DECAY_RATES: Final = "A_log"  # log(A); a file has -A
# The parameters of xIELU and their shapes in a checkpoint. A file has them in its metadata.
_XIELU: Final = {"alpha_p": (1,), "alpha_n": (1,), "beta": (), "eps": ()}


@dataclass(frozen=True, slots=True)
class ValueHeads:
    """The head sizes of gated DeltaNet layers. `num_values` / `num_keys` value heads share a key head."""

    num_keys: int
    num_values: int
    key_dim: int
    value_dim: int

    @property
    def group(self) -> int:
        """The number of value heads that share a key head."""
        return self.num_values // self.num_keys


@dataclass(frozen=True, slots=True)
class Assembled:
    """A checkpoint's tensor of this `shape`, which `combine` makes of the file's tensors `parts` (shapes by name)."""

    parts: Mapping[str, tuple[int, ...]]
    shape: tuple[int, ...]
    combine: Callable[[Iterable[Array]], Array]


def largest_of(value: Any) -> Any:
    """Return the largest of a list of integers, which has 0 for layers without heads; other values are unchanged."""
    is_list = isinstance(value, np.ndarray) and value.size and value.dtype.kind in "iu"
    return int(value.max()) if is_list else value


def held_names(name: str) -> tuple[str, ...]:
    """Return the names of the tensors that a file's tensor holds: its own name, or those of gate and up."""
    if _GATE_AND_UP not in name:
        return (name,)
    return tuple(name.replace(_GATE_AND_UP, f".ffn_{part}_exps.") for part in ("gate", "up"))


def as_stored(name: str, tensor: GgufTensor, part: int = 0, num_parts: int = 1) -> dict[str, GgufTensor]:
    """Return a file's tensor by its name in a checkpoint, with its shape there.

    A name with `{}` is that of all experts of a layer, which a checkpoint stores one by one. The file's tensor has, of
    each expert, the rows of `num_parts` tensors of equal size; return those of `part`.
    """
    if "{}" in name:
        return {name.format(index): expert for index, expert in enumerate(_experts(tensor, part, num_parts))}
    shape = tensor.shape
    if name.endswith(_ROWS) and len(shape) == 1:
        shape = (1, *shape)
    elif name.endswith(_CONVOLUTIONS) and len(shape) == 2:
        shape = (shape[0], 1, shape[1])
    elif len(shape) == 2 and (name.endswith(_VECTORS) or (name.endswith(_COLUMNS) and shape[1] == 1)):
        shape = (shape[0] * shape[1],)
    return {name: replace(tensor, shape=shape)}


def _experts(tensor: GgufTensor, part: int, num_parts: int) -> Iterator[GgufTensor]:
    """Yield the rows of one part of each expert of a tensor [experts, rows, …]. Raise ModelLoadError."""
    if len(tensor.shape) == 1 or tensor.shape[0] > _MOST_EXPERTS:
        raise ModelLoadError(
            f"{tensor.file}: {tensor.name} has the shape {list(tensor.shape)}; it must be [experts, …] with at most "
            f"{_MOST_EXPERTS} experts"
        )
    rows, *columns = tensor.shape[1:]
    each = replace(tensor, shape=(rows // num_parts, *columns))
    if rows % num_parts or each.shape[-1] % tensor.type.columns:
        raise ModelLoadError(f"{tensor.file}: the {rows} rows of an expert in {tensor.name} are not {num_parts} parts")
    for index in range(tensor.shape[0]):
        yield replace(each, offset=tensor.offset + (index * num_parts + part) * each.num_bytes)


def value_heads(kind: str, metadata: Mapping[str, object]) -> ValueHeads | None:
    """Return the head sizes of gated DeltaNet layers from a file's metadata, or None if it has none."""
    names = ("group_count", "time_step_rank", "state_size", "inner_size")
    found = [metadata.get(f"{kind}.ssm.{name}") for name in names]
    sizes = [each for each in found if type(each) is int and 0 < each < _MOST_SIZE]
    if len(sizes) < len(names) or sizes[1] % sizes[0] or sizes[3] % sizes[1]:
        return None
    return ValueHeads(sizes[0], sizes[1], sizes[2], sizes[3] // sizes[1])


def is_decay_rate(name: str) -> bool:
    """Return whether a checkpoint's tensor has the logarithms of decay rates."""
    return name.endswith(_DECAY_RATES)


def restored_decay_rates(numbers: Array) -> Array:
    """Return `A_log` from a file's -exp(A_log)."""
    with np.errstate(all="ignore"):  # a file may have any numbers
        logarithms: Array = np.log(-numbers)
    return logarithms


def stored_order(name: str, heads: ValueHeads) -> npt.NDArray[np.intp] | None:
    """Return the index in the file of each row of a gated DeltaNet tensor, or of each column of `out_proj`.

    None: the order is the same. In a checkpoint the value heads of a key head are adjacent; a file has the first value
    head of each key head, then the second one of each, and so on.
    """
    module = name.partition(".linear_attn.")[2].removesuffix(".weight")
    order = np.arange(heads.num_values).reshape(heads.group, heads.num_keys).T.reshape(-1)
    if module in {"in_proj_b", "in_proj_a", "A_log", "dt_bias"}:
        return order
    rows = (order[:, None] * heads.value_dim + np.arange(heads.value_dim)).reshape(-1)
    if module in {"in_proj_z", "out_proj"}:
        return rows
    if module in {"in_proj_qkv", "conv1d"}:
        num_others = 2 * heads.num_keys * heads.key_dim
        return np.concatenate([np.arange(num_others), num_others + rows])
    return None


def split_heads(tensor: GgufTensor, num_heads: int, num_kv_heads: int) -> Iterator[GgufTensor]:
    """Yield the tensors of queries, keys and values, given one that has the rows of all. Raise ValueError."""
    _require_heads(tensor.shape[0], num_heads, num_kv_heads)
    width, end = tensor.shape[0] // (num_heads + 2 * num_kv_heads), tensor.offset
    for own, count in ((".attn_q.", num_heads), (".attn_k.", num_kv_heads), (".attn_v.", num_kv_heads)):
        shape = (count * width, *tensor.shape[1:])
        part = replace(tensor, name=tensor.name.replace(ALL_HEADS, own), shape=shape, offset=end)
        end += part.num_bytes
        yield part


def _require_heads(num_rows: int, num_heads: int, num_kv_heads: int) -> None:
    """Raise ValueError unless the rows can be those of the queries, keys and values of these heads."""
    are_sizes = all(type(each) is int and each > 0 for each in (num_heads, num_kv_heads))
    if not are_sizes or num_heads % num_kv_heads or num_rows % (num_heads + 2 * num_kv_heads):
        raise ValueError(f"its {num_rows} rows are not those of {num_heads} heads with {num_kv_heads} heads of keys")


def grouped_order(num_rows: int, num_heads: int, num_kv_heads: int) -> npt.NDArray[np.intp]:
    """Return the index in the file of each row of a tensor of queries, keys and values.

    In a checkpoint the queries, the key and the value of a head of keys are adjacent; a file has all queries, then all
    keys, then all values. Raise ValueError for rows that are not those of these heads.
    """
    _require_heads(num_rows, num_heads, num_kv_heads)
    heads = np.arange(num_rows).reshape(num_heads + 2 * num_kv_heads, -1)
    queries, keys, values = np.split(heads, [num_heads, num_heads + num_kv_heads])
    by_kind = (each.reshape(num_kv_heads, -1) for each in (queries, keys, values))
    return np.concatenate(list(by_kind), axis=1).reshape(-1)


def assembled_from(tensors: Mapping[str, GgufTensor], heads: ValueHeads | None) -> Iterator[tuple[str, Assembled]]:
    """Yield the name and recipe of each checkpoint tensor that a file has in parts.

    These are `kv_b_proj` of latent attention (MLA), and `in_proj_qkvz` of gated DeltaNet.
    """
    for name, first in tensors.items():
        if name.endswith(".k_b_proj.weight"):
            stem = name.removesuffix("k_b_proj.weight")
            second = tensors.get(f"{stem}v_b_proj.weight")
            if second is not None and first.shape[::2] != () and len(first.shape) == len(second.shape) == 3:
                num_heads, rank, key_dim = first.shape
                shape = (num_heads * (key_dim + second.shape[1]), rank)
                parts = {name: first.shape, f"{stem}v_b_proj.weight": second.shape}
                yield f"{stem}kv_b_proj.weight", Assembled(parts, shape, _keys_and_values)
        if name.endswith(".in_proj_qkv.weight") and heads is not None and f"{name[:-10]}ba.weight" in tensors:
            gate = f"{name.removesuffix('qkv.weight')}z.weight"
            if gate in tensors:
                joined = {name: first.shape, gate: tensors[gate].shape}
                whole = (first.shape[0] + tensors[gate].shape[0], *first.shape[1:])
                assembled = Assembled(joined, whole, partial(_by_key_head, heads=heads))
                yield f"{name.removesuffix('.weight')}z.weight", assembled


def _keys_and_values(parts: Iterable[Array]) -> Array:
    """Return `kv_b_proj`: for each head the rows of its key, then those of its value."""
    keys, values = parts
    rows = np.concatenate([keys.swapaxes(1, 2), values], axis=1)
    return np.ascontiguousarray(rows.reshape(-1, rows.shape[-1]))


def _by_key_head(parts: Iterable[Array], heads: ValueHeads) -> Array:
    """Return `in_proj_qkvz`: for each key head the rows of its query, key, values and gates."""
    qkv, gates = parts
    keys = heads.num_keys * heads.key_dim
    all_rows = (qkv[:keys], qkv[keys : 2 * keys], qkv[2 * keys :], gates)
    by_head = [rows.reshape(heads.num_keys, -1, rows.shape[-1]) for rows in all_rows]
    return np.ascontiguousarray(np.concatenate(by_head, axis=1).reshape(-1, qkv.shape[-1]))


def xielu_parameters(kind: str, metadata: Mapping[str, object]) -> dict[str, npt.NDArray[np.float32]]:
    """Return each layer's xIELU parameters from a file's metadata, by tensor name. Raise ModelLoadError."""
    num_layers = metadata.get(f"{kind}.block_count")
    if type(num_layers) is not int or not 0 < num_layers <= 1 << 12:
        raise ModelLoadError(f"{kind}.block_count must be an integer from 1 to 4096")
    found = {}
    for own, shape in _XIELU.items():
        value = np.asarray(metadata.get(f"xielu.{own}", ()))
        if value.dtype.kind not in "fiu" or value.shape not in {(), (num_layers,)} or not np.isfinite(value).all():
            raise ModelLoadError(f"xielu.{own} must have a finite number for each of {num_layers} layers")
        for layer, number in enumerate(np.broadcast_to(value, num_layers)):
            found[f"model.layers.{layer}.mlp.act_fn.{own}"] = np.full(shape, number, np.float32)
    return found

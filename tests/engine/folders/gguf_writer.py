"""Write GGUF files of tiny models as llama.cpp's own converter does, with its names of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import MODEL_ARCH
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from tests.engine.folders import gguf_metadata as metadata
from tests.engine.folders import gguf_tensors as tensors

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class GgufFamily:
    """What the converter does for one of the models of `tests.models.families`."""

    arch: MODEL_ARCH
    keys: tuple[str, ...] = ()  # fields of the configuration that are written beyond the usual ones
    permutes: bool = False
    norm_addend: float = 0.0
    more: Callable[[gguf.GGUFWriter, Any], None] = lambda _, __: None
    write_model: Callable[[gguf.GGUFWriter, Any], None] = lambda _, __: None  # what the weights say beyond tensors
    written_by_more: tuple[str, ...] = ()  # keys with another meaning than usual
    convert: Callable[[str, Array, Any], Iterator[tuple[str, Array]]] | None = None  # a tensor to those of the file
    plain_norms: tuple[str, ...] = ()  # the ends of names of norms without `norm_addend`
    options: dict[str, Any] = field(default_factory=dict)  # of the small model, where files imply other ones


def write_file(
    family: GgufFamily,
    model: Any,
    file: Path,
    quantized: Kind | None = None,
    *,
    fuses_experts: bool = False,
    fuses_heads: bool = False,
) -> None:
    """Write a model; `quantized` is a type of fewer bits for the matrices of layers.

    With `fuses_experts`, the file has gate and up of experts in one tensor; with `fuses_heads`, the rows of queries,
    keys and values.
    """
    config = model.config
    writer = gguf.GGUFWriter(file, gguf.MODEL_ARCH_NAMES[family.arch])
    written = set()
    for name_of, key in [*metadata.USUAL.items(), *((own, metadata.OWN[own]) for own in family.keys)]:
        if key in written or key in family.written_by_more or (value := getattr(config, name_of, None)) is None:
            continue
        written.add(key)
        getattr(writer, f"add_{key}")(value)
    ropes = getattr(config, "rope_parameters", None)
    if ropes:
        writer.add_rope_freq_base(ropes.get("full_attention", ropes)["rope_theta"])
    family.more(writer, config)
    family.write_model(writer, model)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["t", "0", *(f"t{index}" for index in range(config.vocab_size - 2))])
    writer.add_token_merges(["t 0"])
    writer.add_tokenizer_pre("gpt-2")
    named = _named_tensors(model, family)
    named = tensors.with_fused_heads(named) if fuses_heads else named
    for found, array in tensors.with_fused_experts(named) if fuses_experts else named:
        if quantized is not None and array.ndim > 1 and found.startswith("blk.") and array.shape[-1] % 32 == 0:
            blocks = gguf.quantize(array, quantized)
            writer.add_tensor(found, blocks, raw_dtype=quantized)
        else:
            writer.add_tensor(found, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _named_tensors(model: Any, family: GgufFamily) -> Iterator[tuple[str, Array]]:
    """Yield the tensors of a file, by its names."""
    names = gguf.get_tensor_name_map(family.arch, model.config.num_hidden_layers)
    for stored, array in _tensors(model, family):
        found = stored if stored.startswith("blk.") else names.get_name(stored, try_suffixes=(".weight", ".bias"))
        assert found is not None, stored
        yield found, array


def _tensors(model: Any, family: GgufFamily) -> Iterator[tuple[str, Array]]:
    """Yield the tensors that the converter writes, by names that llama.cpp's package knows."""
    config = model.config
    for name, tensor in model.state_dict().items():
        array = tensor.float().numpy()
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if ".experts." in name or "shared_mlp.input_linear" in name:
            yield from tensors.of_experts(name, array, config)
            continue
        if name.endswith("norm.weight") and family.norm_addend and not name.endswith(family.plain_norms or "-"):
            array = array + np.float32(family.norm_addend)
        if family.permutes and "self_attn.q_proj" in name:
            array = tensors.in_pairs(array, config.num_attention_heads)
        if family.permutes and "self_attn.k_proj" in name:
            array = tensors.in_pairs(array, config.num_key_value_heads)
        stored = name.replace("block_sparse_moe.router.weight", "block_sparse_moe.router.layer.weight")
        stored = f"{stored}.weight" if "sinks" in name else stored
        if family.convert is None:
            yield stored, array.squeeze()
        else:
            yield from family.convert(stored, array, config)

"""`sluice convert`: convert a GGUF file of a Llama, Qwen2 or Qwen3 model to a folder that can be served."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file

from service.commands.gguf_splitters import check_splitter, set_splitter
from service.generation.errors import ModelLoadError

_TYPES: Final = ("llama", "qwen2", "qwen3")
_DTYPES: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
_OUTSIDE: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_FACTORS: Final = "rope_freqs.weight"  # the divisor of each rotary frequency, in Llama 3.1 and later
_LLAMA3: Final = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_LLAMA3_SCALES: Final = (8.0, 32.0)  # Llama 3.1 and 3.3; Llama 3.2
_SHARD_BYTES: Final = 4 << 30


class Source:
    """A GGUF file's metadata and tensors, under the names that transformers uses."""

    def __init__(self, file: Path) -> None:
        """Raise ModelLoadError for a file that isn't GGUF, or a model of an unsupported architecture."""
        import gguf  # noqa: PLC0415  installed with the extra `gguf`

        self._file = file
        self._gguf: Any = gguf
        try:
            self._reader = gguf.GGUFReader(file)
        except (OSError, ValueError, IndexError, KeyError) as error:
            raise ModelLoadError(f"{file} can't be read as GGUF: {error}") from error
        self.kind = self._value("general.architecture")
        if self.kind not in _TYPES:
            raise ModelLoadError(f"{file}: its architecture is {self.kind}; converted are {', '.join(_TYPES)}")
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}

    @property
    def word_splitter(self) -> tuple[str, str]:
        """The kind of the tokenizer and the name of its word splitter; empty if the file has none."""
        return self._value("tokenizer.ggml.model", ""), self._value("tokenizer.ggml.pre", "")

    def config(self, dtype: str) -> dict[str, Any]:
        """Return the content of config.json. Raise ModelLoadError for a variant that can't be converted."""
        if self._value("split.count", 1) > 1:
            raise ModelLoadError(
                f"{self._file}: it is one of several files; llama-gguf-split --merge makes one of them"
            )
        num_heads, hidden = self._of_kind("attention.head_count"), self._of_kind("embedding_length")
        num_kv_heads = self._of_kind("attention.head_count_kv", num_heads)
        scaling = self._of_kind("rope.scaling.type", "none")
        if scaling not in {"none", ""} or not isinstance(num_kv_heads, int):
            raise ModelLoadError(f"{self._file}: its rotary scaling {scaling}, or its heads by layer, aren't converted")
        base = float(self._of_kind("rope.freq_base", 10_000.0))
        head_dim = self._of_kind("attention.key_length", hidden // num_heads)
        if self._of_kind("rope.dimension_count", head_dim) != head_dim:
            raise ModelLoadError(f"{self._file}: partial rotary positions can't be converted")
        config = {
            "model_type": self.kind,
            "architectures": [f"{self.kind.capitalize()}ForCausalLM"],
            "vocab_size": len(self._tensors["token_embd.weight"].data),
            "hidden_size": hidden,
            "intermediate_size": self._of_kind("feed_forward_length"),
            "num_hidden_layers": self._of_kind("block_count"),
            "num_attention_heads": num_heads,
            "num_key_value_heads": num_kv_heads,
            "head_dim": head_dim,
            "max_position_embeddings": self._of_kind("context_length"),
            "rms_norm_eps": float(self._of_kind("attention.layer_norm_rms_epsilon")),
            "hidden_act": "silu",
            "tie_word_embeddings": "output.weight" not in self._tensors,
            "rope_theta": base,
            "eos_token_id": self._value("tokenizer.ggml.eos_token_id", None),
            "bos_token_id": self._value("tokenizer.ggml.bos_token_id", None),
            "attention_bias": self.kind == "llama" and "blk.0.attn_q.bias" in self._tensors,
            "torch_dtype": dtype,
        }
        if _FACTORS in self._tensors:
            config["rope_scaling"] = self._llama3(base, head_dim)
        return config

    def other_files(self) -> dict[str, str]:
        """The texts of further files by name: the end tokens, and the chat template."""
        ends = {self._value(f"tokenizer.ggml.{name}_token_id", None) for name in ("eos", "eot", "eom")} - {None}
        files = {"generation_config.json": json.dumps({"eos_token_id": sorted(ends)})} if ends else {}
        template = self._value("tokenizer.chat_template", None)
        return files | ({"chat_template.jinja": template} if template else {})

    def tensors(self) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
        """Yield each weight with its name, as float32."""
        for name, tensor in self._tensors.items():
            if name == _FACTORS:
                continue
            weight = self._gguf.dequantize(tensor.data, tensor.tensor_type)
            yield self._name(name), self._rows(name, np.array(weight, np.float32))

    def _name(self, name: str) -> str:
        """Return the name of a tensor in transformers' checkpoints. Raise ValueError if it is unknown."""
        module, _, kind = name.rpartition(".")
        layer = re.fullmatch(r"blk\.(\d+)\.(\w+)", module)
        try:
            inside = f"model.layers.{layer[1]}.{_LAYER[layer[2]]}" if layer else _OUTSIDE[module]
        except KeyError:
            raise ModelLoadError(f"{self._file}: the tensor {name} isn't known of {self.kind}") from None
        return f"{inside}.{kind}"

    def _rows(self, name: str, weight: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Reorder the rows of a Llama's queries and keys: GGUF interleaves the halves of a head."""
        heads = {"attn_q.": "attention.head_count", "attn_k.": "attention.head_count_kv"}
        all_heads = self._of_kind("attention.head_count")
        found = next((self._of_kind(heads[each], all_heads) for each in heads if each in name), None)
        if self.kind != "llama" or found is None:
            return weight
        pairs = weight.reshape(found, -1, 2, *weight.shape[1:])
        return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(weight.shape))

    def _llama3(self, base: float, head_dim: int) -> dict[str, Any]:
        """Return the rotary scaling that has the file's factors."""
        factors = np.asarray(self._tensors[_FACTORS].data, np.float64)
        wave_lengths = 2 * np.pi * base ** (np.arange(0, head_dim, 2) / head_dim)
        original, low, high = (
            _LLAMA3[name] for name in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
        )
        smooth_factor = np.clip((original / wave_lengths - low) / (high - low), 0, 1)
        for scale in _LLAMA3_SCALES:
            if np.allclose(1 / ((1 - smooth_factor) / scale + smooth_factor), factors, rtol=1e-3):
                return {"rope_type": "llama3", "factor": scale, **_LLAMA3}
        raise ModelLoadError(f"{self._file}: its rotary factors are none of Llama 3.1's, 3.2's or 3.3's")

    def _of_kind(self, name: str, *default: Any) -> Any:
        """Return the metadata value of the architecture's own key."""
        return self._value(f"{self.kind}.{name}", *default)

    def _value(self, key: str, *default: Any) -> Any:
        """Return a metadata value, or the default. Raise ValueError if there is neither."""
        field = self._reader.get_field(key)
        if field is not None:
            return field.contents()
        if default:
            return default[0]
        raise ModelLoadError(f"{self._file}: it has no {key}")


def convert(file: Path, folder: Path, dtype: str) -> None:
    """Write `folder`, which must not exist. Raise ModelLoadError."""
    if folder.exists():
        raise ModelLoadError(f"{folder} exists already")
    source = Source(file)
    config = source.config(dtype)
    check_splitter(file, *source.word_splitter)
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        _write(source, config, file, building, _DTYPES[dtype])
        building.rename(folder)
    except NotImplementedError as error:
        raise ModelLoadError(f"{file}: {error}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)  # a no-op after the rename


def _write(source: Source, config: dict[str, Any], file: Path, building: Path, dtype: torch.dtype) -> None:
    """Write the model's folder, without its final name."""
    _write_tokenizer(file, building)
    set_splitter(building, *source.word_splitter)
    for name, text in {**source.other_files(), "config.json": json.dumps(config, indent=2)}.items():
        (building / name).write_text(text, encoding="utf-8")
    _write_weights(source, building, dtype)


def _write_tokenizer(file: Path, folder: Path) -> None:
    """Write the tokenizer that transformers builds from a GGUF file."""
    from transformers import AutoTokenizer, logging  # noqa: PLC0415  it takes seconds

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        tokenizer.save_pretrained(folder)
    except Exception as error:  # many exception types, all handled in the same way
        raise ModelLoadError(f"{file}: its tokenizer can't be converted: {error}") from error


def _write_weights(source: Source, folder: Path, dtype: torch.dtype) -> None:
    """Write files of bounded size, so that only one of them is in memory."""
    shards: list[list[str]] = []
    held: dict[str, torch.Tensor] = {}
    size = 0
    for name, weight in source.tensors():
        held[name] = torch.from_numpy(weight).to(dtype)
        size += held[name].nbytes
        if size > _SHARD_BYTES:
            shards.append(_write_shard(folder, len(shards), held))
            held, size = {}, 0
    if held:
        shards.append(_write_shard(folder, len(shards), held))
    weight_map = {name: _shard_name(index) for index, names in enumerate(shards) for name in names}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def _write_shard(folder: Path, index: int, tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """Write one file of tensors and return their names."""
    save_file(dict(tensors), folder / _shard_name(index), metadata={"format": "pt"})
    return list(tensors)


def _shard_name(index: int) -> str:
    return f"model-{index + 1:05}.safetensors"


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="sluice convert", description=__doc__)
    parser.add_argument("file", type=Path, help="a model's GGUF file, of any of its types")
    parser.add_argument("folder", type=Path, help="the folder to write and serve; it must not exist")
    parser.add_argument("--dtype", choices=_DTYPES, default="bfloat16", help="of the weights (bfloat16)")
    options = parser.parse_args(arguments)
    if find_spec("gguf") is None:
        sys.stderr.write("sluice: GGUF files are read by a package that is not installed: pip install gguf\n")
        return 1
    if not options.file.is_file():
        sys.stderr.write(f"sluice: {options.file} is not a file\n")
        return 1
    try:
        convert(options.file, options.folder, options.dtype)
    except ModelLoadError as error:
        sys.stderr.write(f"sluice: {error}\n")
        return 1
    sys.stdout.write(f"written: {options.folder}; sluice serve {options.folder} serves it\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

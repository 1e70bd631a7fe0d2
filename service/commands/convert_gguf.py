"""`sluice convert`: convert a GGUF file to a folder of safetensors files, with weights of 16 or 32 bits."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save_file

from service.engine.loading.gguf.gguf_folder import check_split, joined, split_files
from service.engine.loading.gguf.settings_files import write_settings
from service.engine.models.checkpoint.checkpoint import bits_as_floats
from service.engine.models.checkpoint.gguf.gguf_checkpoint import GgufCheckpoint
from service.engine.models.checkpoint.gguf.header import GgufHeader, read_header
from service.generation.errors import ModelLoadError

_DTYPES: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
_SHARD_BYTES: Final = 4 << 30


def convert(file: Path, folder: Path, dtype: str) -> None:
    """Write `folder`, which must not exist. Raise ModelLoadError."""
    if folder.exists():
        raise ModelLoadError(f"{folder} exists already")
    headers = [read_header(each) for each in split_files(file)]
    check_split(headers)
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        write_settings(joined(headers), building, dtype)
        _write_weights(headers, building, _DTYPES[dtype])
        building.rename(folder)
    except NotImplementedError as error:
        raise ModelLoadError(f"{file}: {error}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)  # a no-op after the rename


def _tensors(headers: Sequence[GgufHeader], folder: Path, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each weight with its name."""
    checkpoint = GgufCheckpoint(folder, headers)
    for name, shape in checkpoint.checkpoint_shapes().items():
        numbers = checkpoint.take(name, shape)
        floats = bits_as_floats(numbers) if numbers.dtype == "uint16" else numbers
        yield name, torch.from_numpy(floats).to(dtype)


def _write_weights(headers: Sequence[GgufHeader], folder: Path, dtype: torch.dtype) -> None:
    """Write files of bounded size, so that only one of them is in memory."""
    shards: list[list[str]] = []
    held: dict[str, torch.Tensor] = {}
    size = 0
    for name, weight in _tensors(headers, folder, dtype):
        held[name] = weight
        size += weight.nbytes
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

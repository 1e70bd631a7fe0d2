"""A broken folder of weights is rejected with the names of the file and the tensor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.generation.errors import ModelLoadError
from tests.engine.folders.tiny_models import Part, load, run, save, tokens

NAME = "model.layers.1.mlp.up_proj.weight"
FILE = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save("llama", tmp_path)
    return tmp_path


def edit(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(folder / FILE)
    change(tensors)
    save_file(tensors, folder / FILE)


def truncate(folder: Path) -> None:
    content = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(content[: len(content) // 2])


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no file": (lambda folder: (folder / FILE).unlink(), "holds neither model.safetensors nor"),
    "pickle": (
        lambda folder: (folder / FILE).rename(folder / "pytorch_model.bin"),
        r"pytorch_model\.bin is a pickle, which is not read because it can run code\. Convert a file that you trust",
    ),
    "GGUF": (
        lambda folder: (folder / FILE).rename(folder / "x.gguf"),
        r"served by its own name: .*x\.gguf",
    ),
    "truncated": (truncate, f"{FILE} can't be read as safetensors"),
    "empty": (lambda folder: (folder / FILE).write_bytes(b""), f"{FILE} can't be read as safetensors"),
    "not safetensors": (lambda folder: (folder / FILE).write_text("hello, hello, hello"), f"{FILE} can't be read"),
    "missing tensor": (lambda folder: edit(folder, lambda t: t.pop(NAME)), f"{NAME} is missing"),
    "wrong shape": (
        lambda folder: edit(folder, lambda t: t.update({NAME: t[NAME].t().contiguous()})),
        rf"{FILE}: {NAME} has the shape \[64, 96\], the configuration requires \[96, 64\]",
    ),
    "unexpected tensor": (
        lambda folder: edit(folder, lambda t: t.update({"model.surprise": torch.zeros(2)})),
        f"{FILE}: unexpected tensor model.surprise",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_load_refuses_a_broken_folder(name: str, folder: Path) -> None:
    """Each fault is a ModelLoadError that names the faulty part."""
    break_it, message = BROKEN[name]
    break_it(folder)
    with pytest.raises(ModelLoadError, match=message):
        load(folder)


def test_checkpoint_refuses_other_types(folder: Path) -> None:
    """Tensors of integers are rejected."""
    edit(folder, lambda t: t.update({NAME: t[NAME].to(torch.int8)}))
    with pytest.raises(ModelLoadError, match=f"{FILE}: {NAME} has the type I8"):
        _ = Checkpoint(folder).dtype


def test_masks_and_frequencies_of_old_files_are_not_weights(folder: Path) -> None:
    """They change neither the type nor the number of parameters of the weights."""
    num_parameters = Checkpoint(folder).num_parameters
    edit(folder, lambda t: t.update({name: tensor.bfloat16() for name, tensor in t.items()}))
    others = {
        "gpt_neox.layers.0.attention.bias": torch.ones(1, 1, 4, 4, dtype=torch.uint8),
        "gpt_neox.layers.0.attention.masked_bias": torch.tensor(-1e9),
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8),
    }
    edit(folder, lambda t: t.update(others))
    found = Checkpoint(folder)
    assert (found.dtype, found.num_parameters) == ("bfloat16", num_parameters)


def test_a_file_that_is_cut_short_while_it_is_read_is_refused(folder: Path) -> None:
    """The error is raised instead of a signal that would end the process."""
    checkpoint = Checkpoint(folder)
    truncate(folder)
    last = checkpoint.describe()[-1]
    with pytest.raises(ModelLoadError, match=f"{FILE}: {last[0]} can't be read: the file was truncated"):
        checkpoint.take(*last[:2])


@pytest.mark.slow
def test_pages_that_were_read_are_released(tmp_path: Path) -> None:
    """Loading 128 MiB in pieces of 4 MiB never needs a quarter of it."""
    save_file({f"t{index}": torch.zeros(1 << 20) for index in range(32)}, tmp_path / FILE)
    checkpoint = Checkpoint(tmp_path)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # reset the peak
    before = kibibytes("VmRSS")
    for name, shape, _ in checkpoint.describe():
        checkpoint.take(name, shape)
    assert kibibytes("VmHWM") - before < 32 << 10


def kibibytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def test_load_reads_shards(folder: Path) -> None:
    """A model in several files loads as from one; the error of a missing file in the index names it."""
    ids = tokens(9)
    part = Part(ids, 0, 9, [3, 4])
    expected = run(load(folder), [part])[0]
    tensors = load_file(folder / FILE)
    (folder / FILE).unlink()
    names = sorted(tensors)
    weight_map: dict[str, str] = {}
    for index, chosen in enumerate((names[::2], names[1::2])):
        file = f"model-{index}.safetensors"
        save_file({name: tensors[name] for name in chosen}, folder / file)
        weight_map |= dict.fromkeys(chosen, file)
    index_file = folder / "model.safetensors.index.json"
    index_file.write_text(json.dumps({"weight_map": weight_map}))
    assert torch.equal(run(load(folder), [part])[0], expected)
    (folder / "model-1.safetensors").unlink()
    with pytest.raises(ModelLoadError, match=r"model-1.safetensors is named in .* and missing"):
        load(folder)
    index_file.write_text("{}")
    with pytest.raises(ModelLoadError, match=r"index\.json can't be read"):
        load(folder)


def test_checkpoint_reports_the_bytes_that_it_read(folder: Path) -> None:
    """The sum of the reported bytes is the size of all tensors."""
    checkpoint = Checkpoint(folder)
    read: list[int] = []
    checkpoint.on_read = read.append
    for name, shape, _ in checkpoint.describe():
        checkpoint.take(name, shape)
    assert sum(read) == 4 * checkpoint.num_parameters
    assert sum(read) <= checkpoint.num_bytes
    checkpoint.require_all_taken()

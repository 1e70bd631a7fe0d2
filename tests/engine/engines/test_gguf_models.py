"""GGUF files are served as they are: in their blocks, with settings and tokenizer out of their metadata."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from torch.testing import assert_close

from service.commands.check_model import check_model
from service.engine.interface.config import EngineConfig
from service.engine.loading.generator import LoadedModel, load_model
from service.engine.loading.gguf import gguf_folder
from service.engine.loading.gguf.gguf_folder import joined, split_files
from service.engine.loading.gguf.settings_files import write_settings
from service.engine.loading.model_folder import find_folder
from service.engine.models.checkpoint.gguf.header import read_header
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError
from tests.engine.folders.gguf_files import MODELS, write_gguf
from tests.engine.folders.tiny_models import Part, random_model, reference, run

pytestmark = pytest.mark.slow

Q8_0, Q4_0 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0
CONFIG = EngineConfig(num_blocks=16, max_model_len=64, num_threads=1)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write settings in this process, which has imported what takes a process of its own seconds."""

    def write(file: Path, folder: Path) -> None:
        write_settings(joined([read_header(each) for each in split_files(file)]), folder, "bfloat16")

    monkeypatch.setattr(gguf_folder, "_write_settings", write)


def model_of(name: str) -> Any:
    """Return a random model with weights that are large enough for distinct logits."""
    torch.manual_seed(0)
    found = random_model(MODELS[name]())
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.15)
    return found


def dequantized(model: Any, kind: gguf.GGMLQuantizationType) -> Any:
    """Return the model with the numbers that the file's blocks mean."""
    for name, parameter in model.named_parameters():
        if "_proj.weight" in name:
            blocks = gguf.quantize(parameter.detach().numpy(), kind)
            parameter.data = torch.from_numpy(gguf.dequantize(blocks, kind))
    return model


def loaded_from(file: Path, compute_dtype: Any = "float32") -> LoadedModel:
    return load_model(str(file), CONFIG, compute_dtype=compute_dtype, device="cpu")


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_dequantized_weights(name: str, tmp_path: Path) -> None:
    model, file = model_of(name), tmp_path / "tiny.gguf"
    write_gguf(model, file, Q8_0)
    loaded = loaded_from(file)
    assert loaded.info.dtype in {"q8_0", "float32"}  # the type of most of the weights
    token_ids = list(range(1, 40))
    found = run(loaded.runner.backend, [Part(token_ids, 0, len(token_ids), [3, 0, 5])], 16)[0]
    assert_close(found[-1], reference(dequantized(model, Q8_0), token_ids)[-1], rtol=1e-3, atol=2e-3)
    assert loaded.eos_token_ids == {0}
    tokenizer = FastTokenizer.from_folder(loaded.folder)
    assert tokenizer.decode(tokenizer.encode("the to")) == "the to"


@pytest.mark.usefixtures("in_process")
def test_the_folder_of_a_file_has_no_weights(tmp_path: Path) -> None:
    """It is created once per version of the file."""
    write_gguf(model_of("qwen3"), tmp_path / "tiny.gguf", Q4_0)
    folder = find_folder(str(tmp_path / "tiny.gguf"))
    assert sum(file.stat().st_size for file in folder.iterdir()) < 50_000
    written = (folder / "config.json").stat().st_mtime_ns
    assert find_folder(str(tmp_path / "tiny.gguf")) == folder
    assert (folder / "config.json").stat().st_mtime_ns == written
    write_gguf(model_of("qwen3"), tmp_path / "tiny.gguf", Q8_0)
    assert find_folder(str(tmp_path / "tiny.gguf")) != folder


def test_files_are_checked(tmp_path: Path) -> None:
    write_gguf(model_of("qwen3"), tmp_path / "tiny.gguf", Q4_0)
    report = check_model(str(tmp_path / "tiny.gguf"), CONFIG, "auto", "cpu")
    assert (report["backend"], report["cache"], report["same_answer_in_any_batch"]) == ("native", "float16", True)
    assert report["weight_bytes"] == (tmp_path / "tiny.gguf").stat().st_size


def split(file: Path, folder: Path, count: int = 2, arch: str = "qwen3", first: int = 0) -> list[Path]:
    """Write a file's tensors to several files, as llama-gguf-split does, from the file with the index `first` on."""
    reader = gguf.GGUFReader(file)
    parts = [folder / f"tiny-{number + 1:05}-of-{count:05}.gguf" for number in range(count)]
    for number, part in enumerate(parts):
        writer = gguf.GGUFWriter(part, arch)
        for field in reader.fields.values() if number == 0 else ():
            if not field.name.startswith("GGUF.") and field.name != "general.architecture":
                sub_type = field.types[-1] if len(field.types) > 1 else None
                writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub_type)
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", count)
        for tensor in reader.tensors[number - first :: count - first] if number >= first else ():
            writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return parts


@pytest.mark.usefixtures("in_process")
def test_split_files_are_one_model(tmp_path: Path) -> None:
    """Any of the files names the model."""
    model = model_of("qwen3")
    write_gguf(model, tmp_path / "tiny.gguf", Q8_0)
    parts = split(tmp_path / "tiny.gguf", tmp_path)
    token_ids = list(range(1, 20))
    expected, found = (
        run(loaded_from(file).runner.backend, [Part(token_ids, 0, len(token_ids), [3, 0])], 16)[0]
        for file in (tmp_path / "tiny.gguf", parts[1])
    )
    assert found.equal(expected)
    shutil.copy(parts[0], parts[1])
    with pytest.raises(ModelLoadError, match=r"00002-of-00002\.gguf: split\.no and split\.count are 0 and 2, its name"):
        find_folder(str(parts[0]))
    parts[1].unlink()
    with pytest.raises(ModelLoadError, match=r"is one of 2 files, of which tiny-00002-of-00002\.gguf is missing"):
        find_folder(str(parts[0]))


@pytest.mark.usefixtures("in_process")
def test_names_of_files_may_have_capitals(tmp_path: Path) -> None:
    write_gguf(model_of("qwen3"), tmp_path / "tiny.gguf", Q8_0)
    for part in split(tmp_path / "tiny.gguf", tmp_path):
        part.rename(part.with_name(part.name.upper()))
    for name in ("tiny.GGUF", "TINY-00002-OF-00002.GGUF"):
        if name == "tiny.GGUF":
            (tmp_path / "tiny.gguf").rename(tmp_path / name)
        assert (find_folder(str(tmp_path / name)) / "config.json").is_file()


@pytest.mark.parametrize("name", ["none.gguf", "models/none.GGUF"])
def test_a_missing_file_is_not_looked_up_on_the_hub(name: str) -> None:
    with pytest.raises(ModelLoadError, match=rf"^the GGUF file {name} does not exist$"):
        find_folder(name)


@pytest.mark.usefixtures("in_process")
def test_settings_follow_from_the_tensors_of_all_files(tmp_path: Path) -> None:
    """The head's weights are in the second file, and the first one may have no tensors."""
    write_gguf(model_of("llama"), tmp_path / "tiny.gguf", Q8_0)
    token_ids = list(range(1, 20))
    found = []
    for file in (tmp_path / "tiny.gguf", split(tmp_path / "tiny.gguf", tmp_path, arch="llama", first=1)[0]):
        found += [run(loaded_from(file).runner.backend, [Part(token_ids, 0, len(token_ids), [3, 0])], 16)[0]]
    assert found[1].equal(found[0])


def test_a_folder_with_only_gguf_files_is_rejected_with_the_name_of_one(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").touch()
    with pytest.raises(ModelLoadError, match=r"its GGUF file is served by its own name: .*/tiny\.gguf$"):
        find_folder(str(tmp_path))


def test_unsupported_architectures_and_tokenizers_are_rejected_by_name(tmp_path: Path) -> None:
    write_gguf(model_of("qwen3"), tmp_path / "tiny.gguf", words="bloom")
    with pytest.raises(ModelLoadError, match="unsupported pre-tokenizer 'bloom'"):
        find_folder(str(tmp_path / "tiny.gguf"))
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "rwkv7")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelLoadError, match=r"general\.architecture is rwkv7; supported are apertus, arcee, "):
        find_folder(str(tmp_path / "other.gguf"))

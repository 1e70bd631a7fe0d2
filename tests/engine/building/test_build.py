"""Engines built from folders: the description of the model, and the folders that are rejected."""

from __future__ import annotations

import json
import logging
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file

from service.engine.building.engines import build_engine
from service.engine.device import control_groups, memory
from service.engine.interface.config import EngineConfig
from service.engine.loading import model_folder, model_source
from service.generation.errors import ModelLoadError
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.fakes import read
from tests.engine.folders.tiny_models import MAX_POSITIONS, VOCAB_SIZE, save

SMALL = EngineConfig(num_blocks=32, max_batch_sequences=4, worker="thread")


def write_tokenizer(folder: Path, num_tokens: int = VOCAB_SIZE) -> None:
    vocabulary = {f"w{index}": index for index in range(num_tokens)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="w0"))  # noqa: S106
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save("qwen3", tmp_path, torch.bfloat16)
    write_tokenizer(tmp_path)
    return tmp_path


def set_available_memory(
    monkeypatch: pytest.MonkeyPatch, host: Path, num_bytes: int, swap_bytes: int = 1_000_000_000
) -> None:
    """Let the host have this much available memory, in whole KiB, swap space for weights, and no container limit."""
    text = f"MemTotal: 1 kB\nMemAvailable: {num_bytes // 1024} kB\nSwapFree: {swap_bytes // 1024} kB\n"
    (host / "meminfo").write_text(text)
    monkeypatch.setattr(memory, "MEMINFO", host / "meminfo")
    monkeypatch.setattr(control_groups, "ROOT", host)


def edit_json(file: Path, **values: object) -> None:
    data: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(data | values))


@pytest.mark.parametrize("worker", ["thread", "process"])
async def test_build_serves(folder: Path, worker: Any) -> None:
    """A built engine generates and has its description, on a thread and in a process."""
    built = build_engine(str(folder), replace(SMALL, worker=worker), compute_dtype="float32")
    assert built.info.architecture == "Qwen3ForCausalLM"
    assert (built.info.max_model_len, built.info.vocab_size) == (MAX_POSITIONS, VOCAB_SIZE)
    assert (built.info.dtype, built.info.device) == ("float32", "cpu")
    assert built.folder == folder
    async with (
        built.engine as engine,
        engine.generate(GenerationRequest("r", [1, 2, 3], SamplingParams(), StopParams(max_tokens=5))) as outputs,
    ):
        assert sum(len(output.token_ids) for output in await read(outputs)) == 5


@pytest.mark.parametrize("name", ["qwen3", "qwen2-tied", "gpt2"])
def test_build_counts_parameters(name: str, tmp_path: Path) -> None:
    """Parameters are counted as transformers does: a tied head counts once."""
    model = save(name, tmp_path)
    write_tokenizer(tmp_path)
    assert build_engine(str(tmp_path), SMALL).info.num_parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("generation", "config", "expected"),
    [
        ({"eos_token_id": [7, 9]}, {"eos_token_id": 3}, {7, 9}),
        ({"eos_token_id": 7}, {"eos_token_id": 3}, {7}),
        ({}, {"eos_token_id": 3}, {3}),
        ({}, {"eos_token_id": [3, 4]}, {3, 4}),
        ({}, {"eos_token_id": None}, set()),
        (None, {"eos_token_id": 3}, {3}),
    ],
)
def test_build_reads_the_end_of_text_ids(
    folder: Path, generation: dict[str, Any] | None, config: dict[str, Any], expected: set[int]
) -> None:
    """The ids of generation_config.json precede those of config.json."""
    file = folder / "generation_config.json"
    file.unlink()
    if generation is not None:
        file.write_text(json.dumps(generation))
    edit_json(folder / "config.json", **config)
    assert build_engine(str(folder), SMALL).eos_token_ids == expected


def test_end_of_text_ids_beyond_the_vocabulary_are_ignored(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A model with one that it can generate is served; a grammar would reject the others at the first request."""
    edit_json(folder / "generation_config.json", eos_token_id=[7, VOCAB_SIZE, -1, "8", True])
    assert build_engine(str(folder), SMALL).eos_token_ids == {7}
    assert f"ids beyond 0 to {VOCAB_SIZE - 1} are ignored" in caplog.text
    edit_json(folder / "generation_config.json", eos_token_id=VOCAB_SIZE)
    with pytest.raises(ModelLoadError, match=f"eos_token_id must be from 0 to {VOCAB_SIZE - 1}, not {VOCAB_SIZE}"):
        build_engine(str(folder), SMALL)


@pytest.mark.parametrize(("wanted", "smallest", "expected"), [(None, 10**9, 1), (None, 0, 3), (2, 10**9, 2)])
def test_build_gives_a_small_model_one_thread(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wanted: int | None, smallest: int, expected: int
) -> None:
    """A larger model gets OMP_NUM_THREADS threads, and a configured number precedes both."""
    monkeypatch.setattr(model_source, "MIN_THREADED_PARAMETERS", smallest)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert build_engine(str(folder), replace(SMALL, num_threads=wanted)).config.num_threads == expected


@pytest.mark.parametrize(("wanted", "expected"), [(None, 0.02), (0.0, 0.0), (0.5, 0.5)])
def test_tokens_are_reported_together_on_a_cpu(folder: Path, wanted: float | None, expected: float) -> None:
    """On a CPU the default interval of outputs is 20 ms."""
    assert build_engine(str(folder), replace(SMALL, output_interval_s=wanted)).config.output_interval_s == expected


@pytest.mark.parametrize("wrong", [-0.01, 1.5, float("nan")])
def test_an_output_interval_must_be_at_most_1(wrong: float) -> None:
    with pytest.raises(ValueError, match="output_interval_s must be at least 0 and at most 1"):
        EngineConfig(output_interval_s=wrong)


@pytest.mark.parametrize(("available", "expected"), [(10**12, 4 * 8), (64 * 1536 * 2, 6), (1536 * 16 * 2 - 1, None)])
def test_build_sizes_the_cache(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    available: int,
    expected: int | None,
) -> None:
    """The cache takes half of the available memory, at most a full batch of the longest sequences.

    If not even a block fits, the load fails. A token takes 3 layers x 2 x 2 heads x 32 x 4 bytes = 1,536 bytes; 4
    sequences of 128 tokens take 32 blocks.
    """
    set_available_memory(monkeypatch, tmp_path_factory.mktemp("host"), available)
    config = EngineConfig(max_batch_sequences=4, worker="thread")
    if expected is None:
        with pytest.raises(ModelLoadError, match="no memory is left"):
            build_engine(str(folder), config, compute_dtype="float32")
        return
    built = build_engine(str(folder), config, compute_dtype="float32")
    expected = min(expected, available // 2 // (1536 * 16))
    assert built.config.num_blocks == expected


@pytest.mark.parametrize(("cache_share", "expected"), [(1.0, 30), (0.5, 15), (0.1, 3)])
def test_build_leaves_cache_memory_to_others(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    cache_share: float,
    expected: int,
) -> None:
    """An engine takes its share of the memory for caches, here 30 blocks of 16 tokens."""
    set_available_memory(monkeypatch, tmp_path_factory.mktemp("host"), 2 * 30 * 16 * 1536)
    config = EngineConfig(max_batch_sequences=4, worker="thread")
    built = build_engine(str(folder), config, compute_dtype="float32", cache_share=cache_share)
    assert built.config.num_blocks == expected


def test_memory_is_in_bytes() -> None:
    """The cache memory of this machine is more than a megabyte and less than its total memory."""
    total = int(Path("/proc/meminfo").read_text(encoding="ascii").split()[1]) * 1024
    assert 2**20 < memory.cache_bytes() < total


def test_memory_is_limited_by_the_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of `ulimit -v` minus what is mapped counts if it is smaller than the available memory."""
    mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (mapped + 64 * 2**20, resource.RLIM_INFINITY))
    assert memory.available_host_bytes() <= 65 * 2**20


def test_weights_that_do_not_fit_are_not_read(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model larger than the memory is rejected with both sizes, instead of being loaded until the kernel kills."""
    set_available_memory(monkeypatch, tmp_path_factory.mktemp("host"), 4096, swap_bytes=4096)
    with pytest.raises(ModelLoadError, match=r"the weights take 0\.\d GB, and 0\.0 GB of memory are available"):
        build_engine(str(folder), EngineConfig(worker="thread"), compute_dtype="float32")


def test_build_limits_the_context(folder: Path) -> None:
    """A shorter context is accepted, and one that is longer than the model's is rejected."""
    assert (
        build_engine(str(folder), EngineConfig(num_blocks=32, max_model_len=50, worker="thread")).info.max_model_len
        == 50
    )
    with pytest.raises(ModelLoadError, match=f"max_model_len 129 exceeds .* {MAX_POSITIONS}"):
        build_engine(str(folder), EngineConfig(num_blocks=32, max_model_len=129, worker="thread"))


def test_fingerprint_depends_on_all_that_affects_tokens(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is equal for the same files elsewhere, and differs for another compute type, configuration or weights."""
    first = build_engine(str(folder), SMALL, compute_dtype="float32").info.fingerprint
    copy = tmp_path_factory.mktemp("copy")
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert build_engine(str(copy), SMALL, compute_dtype="float32").info.fingerprint == first
    assert build_engine(str(folder), SMALL, compute_dtype="bfloat16").info.fingerprint != first
    edit_json(copy / "generation_config.json", eos_token_id=7)
    assert build_engine(str(copy), SMALL, compute_dtype="float32").info.fingerprint != first
    (copy / "generation_config.json").write_bytes((folder / "generation_config.json").read_bytes())
    edit_json(copy / "config.json", rms_norm_eps=1e-5)
    assert build_engine(str(copy), SMALL, compute_dtype="float32").info.fingerprint != first
    (copy / "config.json").write_bytes((folder / "config.json").read_bytes())
    assert build_engine(str(copy), SMALL, compute_dtype="float32").info.fingerprint == first
    weights = load_file(copy / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in weights.items()}, copy / "model.safetensors")
    assert build_engine(str(copy), SMALL, compute_dtype="float32").info.fingerprint != first


def test_build_rejects_a_model_without_vocabulary(folder: Path) -> None:
    """The folder of an image model is rejected even if it has a tokenizer."""
    (folder / "config.json").write_text(json.dumps({"model_type": "vit"}))
    with pytest.raises(ModelLoadError, match="a vit has no vocabulary, so it cannot generate text"):
        build_engine(str(folder), SMALL)


def test_build_uses_the_configured_backend(folder: Path) -> None:
    """Each backend has a fingerprint of its own, because its rounding differs. An unknown name is rejected."""
    names = ("native", "torch", "transformers")
    prints = [build_engine(str(folder), replace(SMALL, backend=name)).info.fingerprint for name in names]
    assert len(set(prints)) == len(names)
    assert build_engine(str(folder), SMALL).info.fingerprint == prints[0]
    with pytest.raises(
        ModelLoadError, match=r"engine\.backend must be auto or one of native, torch, vision, transformers"
    ):
        build_engine(str(folder), replace(SMALL, backend="tensor"))


def test_build_in_a_process_raises_the_same_error(folder: Path) -> None:
    """An error of the load in a process is raised as the same error."""
    write_tokenizer(folder, VOCAB_SIZE + 1)
    with pytest.raises(ModelLoadError, match=f"tokenizer has {VOCAB_SIZE + 1} ids, the model only {VOCAB_SIZE}"):
        build_engine(str(folder), replace(SMALL, worker="process"))


def test_build_names_the_file_that_it_cannot_load(folder: Path) -> None:
    """The error names the missing or invalid file."""
    with pytest.raises(ModelLoadError, match="folder /no/such/folder does not exist"):
        build_engine("/no/such/folder", SMALL)
    with pytest.raises(ModelLoadError, match="'teapot' is not a torch device"):
        build_engine(str(folder), SMALL, device="teapot")
    write_tokenizer(folder, VOCAB_SIZE + 1)
    with pytest.raises(ModelLoadError, match=f"tokenizer has {VOCAB_SIZE + 1} ids, the model only {VOCAB_SIZE}"):
        build_engine(str(folder), SMALL)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json"):
        build_engine(str(folder), SMALL)
    (folder / "generation_config.json").write_text("{")
    write_tokenizer(folder)
    with pytest.raises(ModelLoadError, match=r"generation_config\.json can't be used"):
        build_engine(str(folder), SMALL)
    (folder / "config.json").write_text("[]")
    with pytest.raises(ModelLoadError, match=r"config\.json can't be used"):
        build_engine(str(folder), SMALL)
    (folder / "config.json").unlink()
    with pytest.raises(ModelLoadError, match=r"config\.json can't be used"):
        build_engine(str(folder), SMALL)


def test_build_downloads_a_hub_id(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub id is resolved to the folder of its download."""
    downloaded: list[str] = []

    def fetch(model: str) -> Path:
        downloaded.append(model)
        return folder

    monkeypatch.setattr(model_folder, "download", fetch)
    assert build_engine("owner/name", SMALL).folder == folder
    assert downloaded == ["owner/name"]


def test_build_logs_the_load(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If stderr is no terminal, one line is logged at the start of a load and one at its end."""
    with caplog.at_level(logging.INFO, logger="service.engine.models.checkpoint.progress"):
        build_engine(str(folder), SMALL)
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith(f"loading {folder}")
    assert last.startswith(f"loaded {folder}")

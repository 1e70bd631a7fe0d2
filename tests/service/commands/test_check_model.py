"""`sluice check` reports what loading the model gives."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from service.commands.check_model import check_model, main
from service.engine.interface.config import EngineConfig
from service.engine.interface.description import EncoderDescription
from service.engine.loading.encoder import load_encoder
from service.engine.loading.generator import load_model
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.interface.backend import KeepsSequenceState
from service.engine.models.plans.families.table import plan_of
from service.generation.errors import ModelLoadError
from service.settings.bundled_models import DEMO_FOLDER, embedding_folder
from tests.engine.encoder_fakes import save_encoder
from tests.engine.folders import packing
from tests.engine.folders.packing import pack_folder
from tests.models.made import made


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "torch", "transformers"])
def test_report_describes_the_loaded_model(backend: str) -> None:
    """Backend, types, lengths, and the bytes of a token's keys and values are those of the loaded model."""
    config = EngineConfig(backend=backend)
    report = check_model(str(DEMO_FOLDER), config, "auto", "cpu")
    loaded = load_model(str(DEMO_FOLDER), config, device="cpu")
    assert report["architecture"] == loaded.info.architecture
    assert report["parameters"] == loaded.info.num_parameters
    assert report["weights"] == loaded.info.dtype
    assert report["max_model_len"] == loaded.info.max_model_len
    assert report["resumes"] == report["same_answer_in_any_batch"] == report["drafts"] == loaded.info.is_invariant
    assert backend in {"auto", report["backend"]}
    assert report["fits"] is True


def test_report_lists_the_guarantees_of_the_backend() -> None:
    """The native backend makes all promises; with another one, the report says why the preferred ones are not used."""
    report = check_model(str(DEMO_FOLDER), EngineConfig(), "auto", "cpu")
    assert report["backend"] == "native"
    assert (report["shared_prefixes"], report["adapters"], report["quantizations"]) == (True, True, ["int4", "int8"])
    assert report["cache_outlives_restart"] is True
    assert not [name for name in report if name.startswith("not_")]
    report = check_model(str(DEMO_FOLDER), EngineConfig(backend="torch"), "auto", "cpu")
    assert (report["drafts"], report["adapters"], report["quantizations"]) == (False, True, [])
    assert report["not_native"] == "another backend was requested"
    assert report["cache_outlives_restart"] is False
    report = check_model(str(DEMO_FOLDER), EngineConfig(block_size=8), "auto", "cpu")
    assert report["backend"] == "torch"
    assert report["not_native"] == "engine.block_size must be a multiple of 16 for it, not 8"


@pytest.mark.slow
def test_report_has_the_bytes_of_a_recurrent_state(tmp_path: Path) -> None:
    """They are those of the loaded model, and only layers with attention have keys and values."""
    made("lfm2", tmp_path)
    report = check_model(str(tmp_path), EngineConfig(num_blocks=8, max_batch_sequences=3), "float32", "cpu")
    loaded = load_model(str(tmp_path), EngineConfig(num_blocks=8, max_batch_sequences=3), compute_dtype="float32")
    backend = loaded.runner.backend
    assert isinstance(backend, KeepsSequenceState)
    assert report["state_bytes_per_sequence"] == backend.bytes_per_sequence > 0
    assert report["cache_bytes_per_token"] * 16 == backend.bytes_per_block(16)
    assert loaded.config.max_batch_sequences == 3
    assert loaded.num_states > 3
    assert report["sequences"] == 3
    assert report["checkpoints"] > 0


@pytest.mark.slow
def test_a_state_must_fit_into_half_of_the_memory_for_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokens that fit are those of the memory that the states leave."""
    made("lfm2", tmp_path)
    config = EngineConfig(max_batch_sequences=3)
    report = check_model(str(tmp_path), config, "float32", "cpu")
    state, per_token = report["state_bytes_per_sequence"], report["cache_bytes_per_token"]
    free = report["weight_bytes"] + 10 * state  # of which the caches take half
    monkeypatch.setattr("service.commands.check_model.available_host_bytes", lambda: free)
    report = check_model(str(tmp_path), config, "float32", "cpu")
    assert (report["sequences"], report["checkpoints"]) == (2, 0)
    assert report["cache_tokens"] == (5 * state - 2 * state) // per_token
    monkeypatch.setattr("service.commands.check_model.available_host_bytes", lambda: report["weight_bytes"] + 3 * state)
    report = check_model(str(tmp_path), config, "float32", "cpu")
    assert (report["sequences"], report["fits"]) == (0, False)


@pytest.mark.parametrize("kind", ["gemma3n_text", "gemma4_text"])
def test_layers_that_share_keys_or_differ_in_size_count_as_they_are(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path)
    report = check_model(str(tmp_path), EngineConfig(), "float32", "cpu")
    plan = plan_of(read_model_config(tmp_path))
    assert report["backend"] == "native"
    assert report["cache_bytes_per_token"] == sum(4 * layer.cached_width for layer in plan.layers)


def test_packed_weights_that_are_widened_count_as_widened(tmp_path: Path) -> None:
    """Those of a product whose groups have different orders, for example."""
    made("qwen3", tmp_path)
    seeds = count()
    quantization = {"quant_method": "gptq", "bits": 4}
    pack_folder(tmp_path, lambda weight: packing.gptq(weight, shuffled=True, seed=next(seeds)), quantization)
    report = check_model(str(tmp_path), EngineConfig(), "auto", "cpu")
    assert (report["backend"], report["weights"]) == ("native", "float32")
    assert report["weight_bytes"] == 4 * report["parameters"]
    assert report["cache"] == "float32"


@pytest.mark.slow
def test_an_encoder_is_checked_by_its_modules_and_headers(tmp_path: Path) -> None:
    """A missing tensor, or one of another shape, is found although no weights are read."""
    source = embedding_folder()
    assert source is not None
    report = check_model(str(source), EngineConfig(), "auto", "cpu")
    loaded = load_encoder(source, EngineConfig(), compute_dtype="auto", device="cpu").description
    assert isinstance(loaded, EncoderDescription)
    assert report["architecture"] == loaded.info.architecture
    assert (report["parameters"], report["weights"]) == (loaded.info.num_parameters, loaded.info.dtype)
    assert (report["max_model_len"], report["fits"]) == (loaded.info.max_model_len, True)
    assert (report["backend"], report["same_answer_in_any_batch"]) == ("native", True)
    assert report["quantizations"] == ["int4", "int8"]
    report = check_model(str(source), EngineConfig(quantization="int8"), "auto", "cpu")
    assert (report["weights"], report["weight_bytes"] < 25e6) == ("int8", True)
    folder = tmp_path / "model"
    shutil.copytree(source, folder)
    with (folder / "config.json").open() as file:
        config = json.load(file)
    for field, fault in (("num_hidden_layers", "missing"), ("intermediate_size", "mismatched")):
        (folder / "config.json").write_text(json.dumps({**config, field: config[field] + 1}))
        with pytest.raises(ModelLoadError, match=f"{fault} tensors"):
            check_model(str(folder), EngineConfig(), "auto", "cpu")


def test_an_encoder_without_a_plan_has_fewer_promises(tmp_path: Path) -> None:
    """The report says why, and so does the error of a setting that requires the native step."""
    save_encoder("mpnet", tmp_path)
    report = check_model(str(tmp_path), EngineConfig(), "auto", "cpu")
    assert (report["backend"], report["same_answer_in_any_batch"], report["quantizations"]) == ("modules", False, [])
    assert report["not_native"] == "the model_type mpnet has no layer plan"
    with pytest.raises(ModelLoadError, match="int8 is not supported for this encoder: the model_type mpnet has no"):
        check_model(str(tmp_path), EngineConfig(quantization="int8"), "auto", "cpu")


def test_model_that_does_not_fit_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The facts are printed nevertheless, and the last line is the error."""
    monkeypatch.setattr("service.commands.check_model.available_host_bytes", lambda: 0)
    for folder in (DEMO_FOLDER, embedding_folder()):
        monkeypatch.setattr("sys.argv", ["check", str(folder), "--json"])
        assert main() == 1
        logging.disable(logging.NOTSET)
        shown = capsys.readouterr()
        assert json.loads(shown.out)["fits"] is False
        assert shown.err == f"sluice: {folder} does not fit in this machine's memory\n"


def test_model_that_cannot_load_is_rejected_with_the_loaders_error(tmp_path: Path) -> None:
    """The error is that of the load."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nobody"}))
    with pytest.raises(ModelLoadError) as checked:
        check_model(str(tmp_path), EngineConfig(), "auto", "cpu")
    with pytest.raises(ModelLoadError) as loaded:
        load_model(str(tmp_path), EngineConfig(), device="cpu")
    assert str(checked.value) == str(loaded.value)


def test_a_tokenizer_that_cannot_encode_is_rejected(tmp_path: Path) -> None:
    """A load reads the tokens only, but the service needs the whole tokenizer."""
    folder = shutil.copytree(DEMO_FOLDER, tmp_path / "model")
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"pre_tokenizer": {"type": "Unknown"}}))
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json: not a tokenizer\.json"):
        check_model(str(folder), EngineConfig(), "auto", "cpu")


@pytest.mark.slow
def test_command_prints_one_line_and_sets_the_exit_code() -> None:
    """The code is 0 with the facts as text or JSON, and 1 with the reason."""
    command = [sys.executable, "-m", "service.commands.check_model"]
    done = subprocess.run(
        [*command, str(DEMO_FOLDER), "--dtype", "bfloat16", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["cache_bytes_per_token"] == 2560
    shown = subprocess.run([*command, str(DEMO_FOLDER)], capture_output=True, text=True, check=True)
    assert "architecture                  Qwen3ForCausalLM\n" in shown.stdout
    unknown = subprocess.run(
        [*command, str(DEMO_FOLDER), "--dtype", "float16"], capture_output=True, text=True, check=False
    )
    assert (unknown.returncode, unknown.stdout) == (2, "")  # no type to compute in
    wrong = subprocess.run([*command, "/nowhere"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr == "sluice: the model folder /nowhere does not exist\n"


def test_the_share_of_each_rank_is_reported() -> None:
    """Each rank holds half of the heads, inner units and vocabulary, and all norms, of the bundled model."""
    report = check_model(str(DEMO_FOLDER), EngineConfig(tensor_parallel=2), "float32", "cpu")
    alone = check_model(str(DEMO_FOLDER), EngineConfig(backend="torch"), "float32", "cpu")
    norms = 4 * (5 * (2 * 256 + 2 * 64) + 256)
    assert report["ranks"] == 2
    assert report["weight_bytes_by_rank"] == (alone["weight_bytes"] - norms) // 2 + norms
    assert report["cache_bytes_per_token_by_rank"] == alone["cache_bytes_per_token"] // 2
    command = [sys.executable, "-m", "service.commands.check_model", str(DEMO_FOLDER), "--tensor-parallel", "0"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == "sluice: tensor_parallel must be a whole number of at least 1, not 0\n"

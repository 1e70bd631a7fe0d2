"""`engine.kv_cache_dtype`: a type for keys and values in backends that support it, rejected by the others."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path

import pytest
import torch

from service.engine.interface.config import EngineConfig
from service.engine.loading.generator import LoadedModel, load_model
from service.engine.models.selection.backends import choose_backend
from service.generation.errors import ModelLoadError
from tests.engine.folders.tiny_models import NUM_BLOCKS, Part, load, reference, run, save, spec, tokens
from tests.models.made import made

FOLDER = Path(__file__).parents[3] / "demo" / "model"
BLOCK_SIZE, LENGTH = 16, 45
SIZES = {"float16": 0.5, "bfloat16": 0.5, "int8": 36 / 32 / 4}  # of a block; keys and values have heads of 32 numbers
# The largest relative error of logits.
ROUNDING = {"float16": 4 * 2**-11, "bfloat16": 4 * 2**-8, "int8": 4 * 2**-6}


@pytest.mark.parametrize(
    ("backend", "kv_cache_dtype"), [*product(["native", "torch"], ["float16", "bfloat16"]), ("native", "int8")]
)
def test_logits_differ_by_rounding_only(backend: str, kv_cache_dtype: str, tmp_path: Path) -> None:
    """This holds for a prompt in one or several chunks and in scattered blocks.

    A block takes half of the bytes, or a quarter and the scales.
    """
    model = save("qwen3", tmp_path)
    ids = tokens(LENGTH)
    expected = reference(model, ids)
    own = load(tmp_path, torch.float32, backend, BLOCK_SIZE, kv_cache_dtype)
    whole = load(tmp_path, backend=backend, block_size=BLOCK_SIZE).bytes_per_block(BLOCK_SIZE)
    assert own.bytes_per_block(BLOCK_SIZE) == SIZES[kv_cache_dtype] * whole
    for ends, table in (((), [3, 4, 5]), ((20, 21, 22), [31, 2, 17]), (range(1, LENGTH), [7, 8, 9])):
        cuts = (0, *ends, LENGTH)
        parts = [Part(ids, start, end, table) for start, end in pairwise(cuts)]
        found = torch.cat([run(own, [part], BLOCK_SIZE)[0].clone() for part in parts])
        assert 0 < (found - expected).norm() / expected.norm() <= ROUNDING[kv_cache_dtype]


def test_torch_clamps_values_that_are_too_large_for_float16(tmp_path: Path) -> None:
    model = save("llama", tmp_path)
    for name, parameter in model.named_parameters():
        if name.endswith("v_proj.weight"):
            parameter.data *= 1e6
    model.save_pretrained(tmp_path)
    backend = load(tmp_path, backend="torch", block_size=BLOCK_SIZE, kv_cache_dtype="float16")
    assert run(backend, [Part(tokens(LENGTH), 0, LENGTH, [0, 1, 2])], BLOCK_SIZE)[0].isfinite().all()


def test_a_backend_that_stores_the_models_type_rejects_another(tmp_path: Path) -> None:
    save("qwen3", tmp_path)
    with pytest.raises(
        ModelLoadError, match=r"it stores keys and values in float32, not in float16 \(engine\.kv_cache"
    ):
        choose_backend(spec(tmp_path, kv_cache_dtype="float16"), "transformers")
    own = spec(tmp_path, torch.bfloat16, kv_cache_dtype="bfloat16")
    assert choose_backend(own, "transformers").name == "transformers"


def test_int8_is_rejected_where_it_does_not_apply(tmp_path: Path) -> None:
    """The errors of the torch backend and of layers that have latents name the setting."""
    save("qwen3", tmp_path / "qwen3")
    with pytest.raises(ModelLoadError, match=r"backend torch: .*not in int8 \(engine\.kv_cache_dtype\)"):
        choose_backend(spec(tmp_path / "qwen3", kv_cache_dtype="int8"), "torch")
    made("deepseek_v3", tmp_path / "latents")
    with pytest.raises(ModelLoadError, match=r"backend native: .*latents .*not in int8 \(engine\.kv_cache_dtype\)"):
        choose_backend(spec(tmp_path / "latents", kv_cache_dtype="int8", block_size=BLOCK_SIZE))


def test_twice_as_many_blocks_fit_and_the_fingerprint_differs() -> None:
    plain, half = (loaded(kv_cache_dtype=each) for each in ("auto", "float16"))
    assert 2 * half.runner.backend.bytes_per_block(16) == plain.runner.backend.bytes_per_block(16)
    assert half.info.fingerprint != plain.info.fingerprint
    assert loaded(kv_cache_dtype="auto").info.fingerprint == plain.info.fingerprint


def loaded(**settings: str) -> LoadedModel:
    config = EngineConfig(backend="native", num_blocks=NUM_BLOCKS, **settings)  # type: ignore[arg-type]
    return load_model(str(FOLDER), config, compute_dtype="float32", device="cpu")

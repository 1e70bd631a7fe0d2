"""Attention over latents: the size of its cache, adapters of the product that expands latents, and refused plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sluice_native
from numpy.typing import NDArray

from service.commands.check_model import check_model
from service.engine.interface.config import EngineConfig
from service.engine.loading.generator import load_model
from tests.models.families import model_of, some_tokens
from tests.models.made import made
from tests.models.shapes import small
from tests.native.decoders import Sequence, native, native_plan, step
from tests.native.families.test_families import BLOCKS

MANY_HEADS = "deepseek_v3, groups"  # more heads than one thread computes together
PARTS = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
Modules = list[tuple[str, NDArray[np.float32], NDArray[np.float32]]]


def test_the_cache_holds_a_latent_and_a_key_per_token(tmp_path: Path) -> None:
    """The load and `sluice check` count `kv_lora_rank + qk_rope_head_dim` numbers per token and layer."""
    made("deepseek_v3", tmp_path, kv_lora_rank=48, qk_rope_head_dim=16)
    loaded = load_model(str(tmp_path), EngineConfig(), compute_dtype="bfloat16", device="cpu")
    num_bytes = 2 * 4 * (48 + 16)
    assert loaded.runner.backend.bytes_per_block(16) == 16 * num_bytes
    assert check_model(str(tmp_path), EngineConfig(), "bfloat16", "cpu")["cache_bytes_per_token"] == num_bytes


def low_ranks(model: sluice_native.Model, seed: int, rank: int, parts: tuple[str, ...]) -> Modules:
    generator = np.random.default_rng(seed)
    found: Modules = []
    for name, shape in model.tensors().items():
        stem, _, kind = name.rpartition(".")
        if kind == "weight" and stem.rpartition(".")[2] in parts:
            down, up = generator.normal(0, 0.2, (rank, shape[1])), generator.normal(0, 0.1, (shape[0], rank))
            found.append((stem, down.astype(np.float32), up.astype(np.float32)))
    return found


@pytest.mark.parametrize("instruction_set", sluice_native.instruction_sets())
@pytest.mark.parametrize("weight_type", ["float32", "bfloat16", "int8", "int4"])
def test_rows_with_adapters_have_the_same_bits_in_any_company(weight_type: str, instruction_set: str) -> None:
    """Adapters of all parts or of one, other rows, chunks and threads change no bit of a row."""
    model = native(model_of(MANY_HEADS), weight_type, instruction_set=instruction_set)
    model.allocate(18, 16)
    plain = [step(model, [(Sequence(some_tokens(seed, 40), BLOCKS), 40)], num_threads=1)[0] for seed in range(3)]
    model.put_adapter(0, low_ranks(model, 0, 5, PARTS))
    model.put_adapter(3, low_ranks(model, 1, 40, ("kv_b_proj",)))
    slots = [0, -1, 3]
    alone = [
        step(model, [(Sequence(some_tokens(seed, 40), BLOCKS), 40)], num_threads=1, adapters=[slot])[0]
        for seed, slot in enumerate(slots)
    ]
    sequences = [Sequence(some_tokens(seed, 40), list(range(6 * seed, 6 * seed + 6))) for seed in range(3)]
    together = [
        step(model, [(each, count) for each in sequences], num_threads=threads, adapters=slots)
        for count, threads in ((21, 4), (1, 1), (18, 2))
    ]
    for seed, expected in enumerate(alone):
        assert np.concatenate([parts[seed] for parts in together]).tobytes() == expected.tobytes()
    assert [each.tobytes() == other.tobytes() for each, other in zip(alone, plain, strict=True)] == [False, True, False]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("kv_rank", 0, "kv_rank must be 1 to 4096"),
        ("key_dim", 4096, "key_dim must be at most 1048576 for all heads together"),
        ("value_dim", 4096, "value_dim must be at most 1048576 for all heads together"),
        ("rotary", 1, "rotary must be below the number of tables, 1"),
        ("rotated_dim", 6, r"rotary\[0\]\.inverse_frequencies must have at most rotated_dim / 2"),
        ("num_kv_heads", 1, "attention has an unknown field"),
    ],
)
def test_invalid_plan_is_rejected(name: str, value: Any, message: str) -> None:
    plan = native_plan(small("deepseek_v3"))
    plan["layers"][1]["attention"] |= {"num_heads": 300, name: value}
    with pytest.raises(ValueError, match=message):
        sluice_native.Model(plan)


def test_norms_of_results_need_heads_with_values() -> None:
    plan = native_plan(small("deepseek_v3"))
    plan["layers"][0]["has_attended_norm"] = True
    with pytest.raises(ValueError, match=r"layers\[0\]\.has_attended_norm must be false over latents"):
        sluice_native.Model(plan)
